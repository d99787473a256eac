package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Of these scripts/mutate is made, see there.
var (
	mutations  = flag.Int("mutate", 0, "run so many commands over inputs that were changed at random")
	mutateSeed = flag.Uint64("mutate-seed", 1, "`NUMBER` from which they follow")
	mutateDir  = flag.String("mutate-dir", "", "`DIR` for the inputs; those of a failure stay there")
)

const (
	mostMutateTime   = 10 * time.Second
	mostMutateMemory = 1 << 30
	mostMutateSeeds  = 300 // of notes
)

// TestMutate runs commands over inputs of all kinds that were changed at random:
// none may panic, take more than 10 seconds or 1 GB of memory.
func TestMutate(t *testing.T) {
	if *mutations == 0 {
		t.Skip("by hand: scripts/mutate")
	}
	seeds := mutateSeeds(t)
	dir := *mutateDir
	if dir == "" {
		dir = t.TempDir()
	}
	t.Chdir(dir)
	debug.SetMemoryLimit(mostMutateMemory / 2) // what is garbage does not count
	silence(t)
	w := &watchdog{}
	go w.watch()
	random := rand.New(rand.NewPCG(*mutateSeed, 0))
	kinds := make(map[string]int)
	for i := range *mutations {
		group := seeds[random.IntN(len(seeds))]
		kinds[group.kind]++
		changed := group.mutated(random)
		for name, b := range group.files {
			if name == changed {
				b = mutate(random, b, seeds[random.IntN(len(seeds))].any())
			}
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range group.commands() {
			w.begin(fmt.Sprintf("input %d: footfall %s", i, strings.Join(args, " ")))
			root, _ := newRootCommand(commands)
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			root.SetArgs(args)
			_ = root.Execute()
			w.end()
		}
		for name := range group.files {
			_ = os.Remove(name)
		}
		if i%100 == 99 {
			fmt.Fprintf(mutateTerminal, "%d inputs, slowest %v, largest %d MB\n", i+1, time.Duration(w.slowest.Load()).Round(time.Millisecond), w.largest.Load()>>20)
		}
	}
	for kind, n := range kinds {
		fmt.Fprintf(mutateTerminal, "%s: %d\n", kind, n)
	}
}

// mutateTerminal is standard error as it was: commands say much.
var mutateTerminal = os.Stderr

// silence keeps to itself what commands print past their own writers.
func silence(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = null, null
	t.Cleanup(func() { os.Stdout, os.Stderr = stdout, stderr })
}

// A watchdog ends the program if a command takes too long or too much.
type watchdog struct {
	what             atomic.Pointer[string]
	since            atomic.Int64
	slowest, largest atomic.Int64
}

func (w *watchdog) begin(what string) {
	w.since.Store(time.Now().UnixNano())
	w.what.Store(&what)
}

func (w *watchdog) end() {
	w.what.Store(nil)
	w.slowest.Store(max(w.slowest.Load(), time.Now().UnixNano()-w.since.Load()))
}

func (w *watchdog) watch() {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for ; ; time.Sleep(20 * time.Millisecond) {
		what := w.what.Load()
		if what == nil {
			continue
		}
		metrics.Read(sample)
		size := int64(sample[0].Value.Uint64() - sample[1].Value.Uint64())
		w.largest.Store(max(w.largest.Load(), size))
		took := time.Duration(time.Now().UnixNano() - w.since.Load())
		if size > mostMutateMemory || took > mostMutateTime && w.what.Load() == what {
			fmt.Fprintf(mutateTerminal, "%s\ntakes %v and %d MB\n", *what, took.Round(time.Millisecond), size>>20)
			os.Exit(1)
		}
	}
}

// A mutateGroup is files that belong together: one of them is changed.
type mutateGroup struct {
	kind  string
	files map[string][]byte
	fixed string // the one that is not
}

func (g *mutateGroup) mutated(random *rand.Rand) string {
	var names []string
	for name := range g.files {
		if name != g.fixed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[random.IntN(len(names))]
}

func (g *mutateGroup) any() []byte {
	for _, name := range slices.Sorted(maps.Keys(g.files)) {
		return g.files[name]
	}
	return nil
}

func (g *mutateGroup) commands() [][]string {
	show := []string{"--no-config", "--output", "json=out.json", "--output", "html=out.html", "--output", "text=out.txt", "--system-headers"}
	switch g.kind {
	case "notes and data":
		return [][]string{append([]string{"report", "m.gcno"}, show...), {"dump", "-l", "-p", "m.gcno", "m.gcda"}, {"gcov", "-n", "-b", "-c", "-a", "m.gcno"}}
	case "notes before GCC 3.4":
		return [][]string{append([]string{"report", "m.bb"}, show...), {"dump", "-l", "m.bb", "m.bbg", "m.da"}}
	case "profile":
		return [][]string{{"profile", "--no-config", "m.profile", "--output", "text=out.txt", "--output", "html=out.html", "--output", "callgrind=out.callgrind"}}
	case "options":
		return [][]string{append([]string{"report", "m.info", "--config", "m.toml"}, show[1:]...)}
	case "diff":
		return [][]string{append([]string{"report", "m.info", "--diff-base", "m.diff"}, show...)}
	}
	return [][]string{append([]string{"report", "m.report"}, show...)}
}

// mutateSeeds are the files of our tests.
func mutateSeeds(t *testing.T) (groups []*mutateGroup) {
	packed := make(map[string][]byte)
	for _, name := range []string{"gcc", "clang", "old", "paths", "legacy"} {
		unpackSeeds(t, filepath.Join("../formats/gcov/testdata", name+".tar.zst"), packed)
	}
	small := func(b []byte) bool { return len(b) > 0 && len(b) < 200000 }
	for name, b := range packed {
		stem := strings.TrimSuffix(name, filepath.Ext(name))
		switch filepath.Ext(name) {
		case ".gcno":
			if small(b) {
				g := &mutateGroup{kind: "notes and data", files: map[string][]byte{"m.gcno": b}}
				if data := packed[stem+".gcda"]; data != nil {
					g.files["m.gcda"] = data
				}
				groups = append(groups, g)
			}
		case ".bb":
			if g := (&mutateGroup{kind: "notes before GCC 3.4", files: map[string][]byte{"m.bb": b}}); packed[stem+".bbg"] != nil {
				g.files["m.bbg"], g.files["m.da"] = packed[stem+".bbg"], packed[stem+".da"]
				groups = append(groups, g)
			}
		}
	}
	slices.SortFunc(groups, func(a, b *mutateGroup) int {
		return bytes.Compare(slices.Concat(a.files["m.gcno"], a.files["m.bb"], a.files["m.bbg"]), slices.Concat(b.files["m.gcno"], b.files["m.bb"], b.files["m.bbg"]))
	})
	// Of many that are alike some will do; all take hundreds of MB.
	kept := groups[:0]
	for i := 0; i < len(groups); i += max(1, len(groups)/mostMutateSeeds) {
		kept = append(kept, groups[i])
	}
	groups = slices.Clone(kept)
	n := len(groups)
	report := func(b []byte) {
		groups = append(groups, &mutateGroup{kind: "report", files: map[string][]byte{"m.report": b}})
	}
	profile := func(b []byte) {
		groups = append(groups, &mutateGroup{kind: "profile", files: map[string][]byte{"m.profile": b}})
	}
	var info []byte
	_ = filepath.WalkDir("..", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		switch {
		case err != nil || !small(b):
		case strings.HasPrefix(name, "../report/testdata/tools/") && (bytes.HasPrefix(b, []byte("TN:")) || bytes.HasPrefix(b, []byte("SF:")) || b[0] == '{' || b[0] == '<'):
			if report(b); info == nil && filepath.Ext(name) == ".info" {
				info = b
			}
		case filepath.Ext(name) == ".counts", strings.HasPrefix(name, "../testdata/perf/") && filepath.Ext(name) == ".data":
			profile(b)
		}
		return nil
	})
	if info == nil || n == 0 {
		t.Fatal("no seeds")
	}
	report([]byte("mode: count\nexample.com/m/a.go:3.14,5.2 1 7\nexample.com/m/a.go:7.20,9.3 2 0\nexample.com/m/b.go:1.1,12.2 4 1\n"))
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(info)
	w.Close()
	report(z.Bytes())
	// A profile of pprof's: two types of samples, a stack of two functions.
	profile([]byte("\n\x04\x08\x01\x10\x02\n\x04\x08\x03\x10\x04\x12\x08\n\x02\x01\x02\x12\x02\x05\x07\"\x08\x08\x01\"\x04\x08\x01\x10\x03\"\x08\x08\x02\"\x04\x08\x02\x10\x09*\x06\x08\x01\x10\x05\x20\x06*\x06\x08\x02\x10\x07\x20\x062\x002\x05calls2\x05count2\x03cpu2\x0bnanoseconds2\x01f2\x03f.c2\x04main"))
	groups = append(groups,
		&mutateGroup{kind: "options", fixed: "m.info", files: map[string][]byte{"m.info": info, "m.toml": []byte("exclude = [\"a/**\", 'b']\n[report]\nfail-under.lines = 10\npath-map = {\"/a\" = \"/b\"}\noutput = [\n  \"text=out.txt\",\n]\n")}},
		&mutateGroup{kind: "diff", fixed: "m.info", files: map[string][]byte{"m.info": info, "m.diff": []byte("diff --git a/prog/main.c b/prog/main.c\nindex 1..2 100644\n--- a/prog/main.c\n+++ b/prog/main.c\n@@ -1,3 +1,4 @@ int f\n a\n+b\n-c\n+d\n e\n")}})
	// As many of those as of notes.
	others := groups[n:]
	for len(groups) < 2*n {
		groups = append(groups, others...)
	}
	return groups
}

func unpackSeeds(t *testing.T, name string, into map[string][]byte) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		into[name+"/"+h.Name] = b
	}
}

// mutate returns b with a few changes; other is for parts of something else.
func mutate(random *rand.Rand, b, other []byte) []byte {
	b = slices.Clone(b)
	for range 1 + random.IntN(4) {
		if len(b) == 0 {
			return b
		}
		at := random.IntN(len(b))
		length := min(1+random.IntN(64), len(b)-at)
		switch random.IntN(9) {
		case 0:
			b[at] ^= 1 << random.IntN(8)
		case 1:
			b[at] = byte(random.IntN(256))
		case 2: // a number
			for i := range min(4, len(b)-at) {
				b[at+i] = []byte{0, 0xff, 0x7f, 0x80, 1}[random.IntN(5)]
			}
		case 3: // digits
			if i := bytes.IndexAny(b[at:], "0123456789"); i >= 0 {
				b = slices.Replace(b, at+i, at+i+1, []byte([]string{"4294967295", "99999999999999999999", "0", "-1", "1000000", "2147483647"}[random.IntN(6)])...)
			}
		case 4: // cut off
			b = b[:at]
		case 5: // left out
			b = slices.Delete(b, at, at+length)
		case 6: // again and again
			b = slices.Insert(b, at, bytes.Repeat(b[at:at+length], 1<<random.IntN(12))...)
		case 7: // a line again and again
			end := bytes.IndexByte(b[at:], '\n') + 1
			begin := bytes.LastIndexByte(b[:at], '\n') + 1
			if line := b[begin : at+end]; end > 0 && len(line) < 4096 {
				b = slices.Insert(b, begin, bytes.Repeat(line, 1<<random.IntN(12))...)
			}
		case 8:
			if len(other) > 0 {
				from := random.IntN(len(other))
				b = slices.Insert(b, at, other[from:min(len(other), from+256)]...)
			}
		}
	}
	return b[:min(len(b), 1<<22)]
}
