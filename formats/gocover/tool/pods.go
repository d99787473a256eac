package tool

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"footfall/formats/gocover"
)

// A pod is a program's meta-data with the files of its counters, those of the first directory first.
type pod struct {
	metaFile string
	files    []string
	origins  []int // of files: the number of the directory
	meta     *gocover.Meta
}

var (
	metaName     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^covmeta\.(\S+)$`) })
	countersName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^covcounters\.(\S+)\.([0-9]{1,18})\.[0-9]+$`) })
)

// collectPods finds the files in directories, which belong together by their names. Counters without meta-data are left
// out.
func collectPods(dirs []string) ([]*pod, error) {
	type found struct {
		name   string
		origin int
	}
	var files []found
	for i, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() {
				files = append(files, found{filepath.Join(dir, e.Name()), i})
			}
		}
	}
	byHash := make(map[string]*pod)
	for _, f := range files {
		if m := metaName().FindStringSubmatch(filepath.Base(f.name)); m != nil && byHash[m[1]] == nil {
			byHash[m[1]] = &pod{metaFile: f.name}
		}
	}
	slices.SortStableFunc(files, func(a, b found) int { return cmp.Or(cmp.Compare(a.origin, b.origin), strings.Compare(a.name, b.name)) })
	for _, f := range files {
		if m := countersName().FindStringSubmatch(filepath.Base(f.name)); m != nil && byHash[m[1]] != nil {
			p := byHash[m[1]]
			p.files, p.origins = append(p.files, f.name), append(p.origins, f.origin)
		}
	}
	return slices.SortedFunc(maps.Values(byHash), func(a, b *pod) int { return strings.Compare(a.metaFile, b.metaFile) }), nil
}

// A functionKey is a function of a program.
type functionKey struct{ pkg, function uint32 }

func keyOf(f *gocover.FunctionCounters) functionKey { return functionKey{f.Package, f.Function} }
