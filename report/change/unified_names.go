package change

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"footfall/report/source"
)

// A fileHeader is what a diff says of a file besides its lines. Names are as
// they stand there.
type fileHeader struct {
	git      string // both names, of "diff --git"
	index    string // the name in "Index: " of Subversion or "diff -r" of Mercurial
	old, new string // the names after "---" and "+++"
	from, to string // of a file that was renamed or copied
	copied   bool
	similar  string // "98%"
	mode     string // of the new version: 120000 is a symbolic link
	blobs    string // "1234567..89abcde", the names of the contents
	alone    bool   // there is only one version,
	deleted  bool   // the old one
	complete bool   // a file that has no lines in the diff may be so
	untold   string // see FileDiff
	done     bool   // it is among the files of the diff
	end      int    // the number of its last line
}

// read takes up a line after "diff --git".
func (h *fileHeader) read(line string) {
	if h.git == "" || h.done {
		return
	}
	for _, field := range []struct {
		name  string
		value *string
	}{
		{"rename from ", &h.from}, {"rename to ", &h.to}, {"copy from ", &h.from}, {"copy to ", &h.to}, {"similarity index ", &h.similar},
		{"new mode ", &h.mode}, {"new file mode ", &h.mode}, {"deleted file mode ", &h.mode}, {"index ", &h.blobs},
	} {
		value, ok := strings.CutPrefix(line, field.name)
		if !ok {
			continue
		}
		*field.value = value
		switch field.name {
		case "index ":
			blobs, mode, _ := strings.Cut(value, " ")
			h.blobs, h.mode = blobs, cmp.Or(mode, h.mode)
		case "new file mode ", "deleted file mode ":
			h.alone, h.complete, h.deleted = true, true, field.name[0] == 'd'
		case "copy to ":
			h.copied, h.complete = true, true
		case "rename to ", "new mode ":
			h.complete = true
		}
	}
}

// emptyBlobs are git's names of no contents.
var emptyBlobs = []string{"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"}

// lacksLines tells whether a file that has changed has no lines in the diff.
func (h *fileHeader) lacksLines() bool {
	if h.git == "" || h.done || h.untold != "" {
		return false
	}
	if h.alone && h.blobs != "" {
		empty := func(blob string) bool {
			return len(blob) > 2 && slices.ContainsFunc(emptyBlobs, func(name string) bool { return strings.HasPrefix(name, blob) })
		}
		old, new, _ := strings.Cut(h.blobs, "..")
		return !empty(old) && !empty(new)
	}
	return !h.complete || h.blobs != "" || h.similar != "" && h.similar != "100%"
}

// settle gives the files their names, without what stands before them on
// request or by default: a/ and b/. It looks for files that are there twice.
//
// What stands before names follows from the two names of a file, which "diff
// --git" always has. Elsewhere a file that is new or deleted has one name only;
// before that stands what stands before others.
func (d *diffReader) settle() error {
	var others [2]string
	for i := range d.headers {
		h := &d.headers[i]
		if old, new := headerName(h.old), headerName(h.new); h.git == "" && old != "" && new != "" && others[0] == "" {
			others = prefixes(old, new, false)
		}
	}
	changed := make(map[string]bool)
	for i := range d.headers {
		f, h := &d.diff.Files[i], &d.headers[i]
		f.Old, f.New = h.names(others)
		if old, new, ok := strings.Cut(h.blobs, ".."); ok {
			f.blobs = [2]string{old, new}
		}
		if f.New != "" && changed[f.New] || h.to != "" && !h.copied && changed[f.Old] {
			d.number = h.end
			return fmt.Errorf("%s is changed a second time: of a series of patches, give one diff of all, as git diff BASE writes it", f.New)
		}
		changed[f.New] = true
	}
	d.diff.Files = slices.DeleteFunc(d.diff.Files, func(m FileDiff) bool {
		return m.untold == asSubmodule && slices.ContainsFunc(d.diff.Files, func(f FileDiff) bool { // whose files are in the diff
			return strings.HasPrefix(cmp.Or(f.New, f.Old), m.New+"/")
		})
	})
	return nil
}

// names returns the names of the file. others is what stands before the names
// of other files of a diff without "diff --git".
func (h *fileHeader) names(others [2]string) (old, new string) {
	old, new = headerName(h.old), headerName(h.new)
	var before [2]string
	switch {
	case h.to != "":
		return unquote(h.from), unquote(h.to)
	case h.git != "":
		one := h.new
		if new == "" {
			one = h.old
		}
		a, b := cutNames(h.git, one)
		a, b = headerName(a), headerName(b)
		before = prefixes(a, b, true)
		if h.old == "" {
			old, new = a, b
		}
		if h.deleted {
			new = ""
		}
	case h.old == "" && h.index != "":
		return h.index, h.index
	case h.old == "":
	case old != "" && new != "":
		before = prefixes(old, new, false)
	case h.index == "":
		before = others
	case strings.HasSuffix(cmp.Or(old, new), "/"+h.index):
		prefix := strings.TrimSuffix(cmp.Or(old, new), h.index)
		before = [2]string{prefix, prefix}
	case h.index != cmp.Or(old, new):
		before = others
	}
	return strings.TrimPrefix(old, before[0]), strings.TrimPrefix(new, before[1])
}

// cutNames cuts the two names of "diff --git" apart, of which one may be known;
// they may have spaces in them.
func cutNames(s, one string) (old, new string) {
	if rest, ok := strings.CutSuffix(s, " "+one); ok && one != "" {
		return rest, one
	}
	if rest, ok := strings.CutPrefix(s, one+" "); ok && one != "" {
		return one, rest
	}
	if half := len(s) / 2; len(s)%2 == 1 && s[half] == ' ' { // prefixes of one length
		return s[:half], s[half+1:]
	}
	old, new, _ = strings.Cut(s, " ")
	return old, new
}

// prefixes returns what stands before the two names of a file that was not
// renamed. The names that git writes differ in nothing else.
func prefixes(old, new string, git bool) (before [2]string) {
	a, restOfOld, ok1 := strings.Cut(old, "/")
	b, restOfNew, ok2 := strings.Cut(new, "/")
	letter := func(s string) bool { return len(s) == 1 && strings.Contains("abciow12", s) }
	switch {
	case old == new:
	case ok1 && ok2 && (git && restOfOld == restOfNew || a != b && letter(a) && letter(b)):
		return [2]string{a + "/", b + "/"}
	case git:
		if n := source.CommonSuffix(old, new); n > 0 {
			return [2]string{beforeLast(old, n), beforeLast(new, n)}
		}
	}
	return before
}

// beforeLast returns what stands before the last n components of a path.
func beforeLast(path string, n int) string {
	end := len(path)
	for range n {
		if end = strings.LastIndexByte(path[:end], '/'); end < 0 {
			return ""
		}
	}
	return path[:end+1]
}

// withoutTime returns the name in a header, which a time may follow.
func withoutTime(s string) string {
	if !strings.HasPrefix(s, `"`) {
		s, _, _ = strings.Cut(s, "\t")
		return s
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1]
		}
	}
	return s
}

// atEpoch tells whether the time in a header is that which GNU diff gives to files that are not there.
func atEpoch(header string) bool {
	i := strings.LastIndexByte(header, '\t')
	t, err := time.Parse("2006-01-02 15:04:05 -0700", header[i+1:])
	return err == nil && t.Unix() == 0
}

// headerName returns the name in a header, "" for none.
func headerName(s string) string {
	if s = unquote(s); s == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(s, "./")
}

// unquote returns a name that git may have put in quotes, with octal and C's
// escapes in it.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' {
		return s
	}
	var name []byte
	for i := 1; i < len(s) && s[i] != '"'; i++ {
		c := s[i]
		if c != '\\' || i+1 == len(s) {
			name = append(name, c)
			continue
		}
		if n, err := strconv.ParseUint(s[i+1:min(i+4, len(s))], 8, 8); err == nil {
			name = append(name, byte(n))
			i += 3
			continue
		}
		i++
		if k := strings.IndexByte("abfnrtv", s[i]); k >= 0 {
			name = append(name, "\a\b\f\n\r\t\v"[k])
		} else {
			name = append(name, s[i])
		}
	}
	return string(name)
}
