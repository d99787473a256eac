//go:build unix

package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	gofixtures "footfall/formats/gocover/fixtures"
	llvmfixtures "footfall/formats/llvm/fixtures"
	"footfall/trace"
)

// Of these scripts/mutate is made, see there.
var (
	mutations  = flag.Int("mutate", 0, "run so many commands over inputs that were changed at random")
	mutateSeed = flag.Uint64("mutate-seed", 1, "`NUMBER` from which they follow")
	mutateDir  = flag.String("mutate-dir", "", "`DIR` for the inputs; those of a failure stay there")
	mutateKind = flag.String("mutate-kind", "", "only inputs of kinds whose names contain `TEXT`")
)

const (
	mostMutateTime   = 10 * time.Second // of processors
	mostMutateWait   = 10 * time.Minute // what other programs take counts, too, so this is for what waits for ever
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
	debug.FreeOSMemory() // what unpacking took is no command's
	w := &watchdog{}
	go w.watch()
	random := rand.New(rand.NewPCG(*mutateSeed, 0))
	kinds, tried := kindsOf(seeds), make(map[string]*mutateTried)
	if len(kinds) != 17 {
		t.Fatalf("seeds of %d kinds, expected 17: have files moved?", len(kinds))
	}
	kinds = slices.DeleteFunc(kinds, func(k []*mutateGroup) bool { return !strings.Contains(k[0].kind, *mutateKind) })
	if len(kinds) == 0 {
		t.Fatalf("no kind is like %q", *mutateKind)
	}
	for i := range *mutations {
		ofKind := kinds[random.IntN(len(kinds))]
		if kinds[0][0].kind == "notes and data" && random.IntN(2) == 0 { // the most involved: as many as of all others
			ofKind = kinds[0]
		}
		group := ofKind[random.IntN(len(ofKind))]
		if tried[group.kind] == nil {
			tried[group.kind] = &mutateTried{}
		}
		changed := group.mutated(random)
		for name, b := range group.files {
			if name == changed {
				b = group.mutate(random, b, seeds[random.IntN(len(seeds))].any())
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, b, 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range group.commands() {
			w.begin(fmt.Sprintf("input %d: footfall %s", i, strings.Join(args, " ")))
			root, _ := newRootCommand(commands())
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			root.SetArgs(args)
			_ = root.Execute()
			clear(completionsOfFlags)
			if w.end(tried[group.kind]) {
				keepSlowest(group)
			}
		}
		tried[group.kind].inputs++
		group.remove()
		if i%1000 == 999 {
			fmt.Fprintf(mutateTerminal, "%d inputs, slowest %v, largest %d MB, %d MB stay\n", i+1, time.Duration(w.slowest.Load()).Round(time.Millisecond), w.largest.Load()>>20, staying()>>20)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(tried)) {
		of := tried[kind]
		fmt.Fprintf(mutateTerminal, "%s: %d inputs, slowest %v, largest %d MB\n", kind, of.inputs, time.Duration(of.slowest).Round(time.Millisecond), of.largest>>20)
	}
}

// mutateTried is what became of the inputs of a kind.
type mutateTried struct {
	inputs           int
	slowest, largest int64 // command: nanoseconds of processors, bytes of this process, with what is not collected yet
}

// completionsOfFlags is where cobra keeps how flags are completed, for all flags
// that there ever were, and by them their commands with what these have read. A
// program has one table of commands; here are hundreds of thousands, which would
// stay, 20 kB each.
//
//go:linkname completionsOfFlags github.com/spf13/cobra.flagCompletionFunctions
var completionsOfFlags map[*pflag.Flag]cobra.CompletionFunc

// kindsOf sorts groups by their kind, notes and data first.
func kindsOf(groups []*mutateGroup) (kinds [][]*mutateGroup) {
	at := make(map[string]int)
	for _, g := range groups {
		i, known := at[g.kind]
		if !known {
			i = len(kinds)
			at[g.kind] = i
			kinds = append(kinds, nil)
		}
		kinds[i] = append(kinds[i], g)
	}
	notes := slices.IndexFunc(kinds, func(k []*mutateGroup) bool { return k[0].kind == "notes and data" })
	kinds[0], kinds[notes] = kinds[notes], kinds[0]
	return kinds
}

// staying is what is in use between two inputs: what grows is kept by somebody.
func staying() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
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
	since, used      atomic.Int64
	slowest, largest atomic.Int64 // of all: nanoseconds of processors, bytes
	now              atomic.Int64 // bytes, of this command
}

func (w *watchdog) begin(what string) {
	w.since.Store(time.Now().UnixNano())
	w.used.Store(processorTime())
	w.now.Store(0)
	w.what.Store(&what)
}

// end notes what a command took, and tells whether it was the slowest up to now, of those that are slow at all.
func (w *watchdog) end(of *mutateTried) (slowest bool) {
	what := w.what.Swap(nil)
	took := processorTime() - w.used.Load()
	of.slowest, of.largest = max(of.slowest, took), max(of.largest, w.now.Load())
	if slowest = took > w.slowest.Load(); slowest {
		w.slowest.Store(took)
	}
	if slowest = slowest && took > int64(time.Second); slowest {
		fmt.Fprintf(mutateTerminal, "slowest: %s: %v\n", *what, time.Duration(took).Round(time.Millisecond))
	}
	return slowest
}

// processorTime is what this process has used, in nanoseconds.
func processorTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// keepSlowest keeps the inputs of the slowest command.
func keepSlowest(g *mutateGroup) {
	for name := range g.files {
		if b, err := os.ReadFile(name); err == nil {
			name = filepath.Join("slowest", name)
			_ = errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, b, 0o666))
		}
	}
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
		if size > mostMutateMemory { // the limit of the collector is what it tries, no more: on a busy machine garbage piles up
			size = int64(staying())
		}
		w.largest.Store(max(w.largest.Load(), size))
		w.now.Store(max(w.now.Load(), size))
		took := time.Duration(time.Now().UnixNano() - w.since.Load())
		used := time.Duration(processorTime() - w.used.Load())
		if size > mostMutateMemory || (used > mostMutateTime || took > mostMutateWait) && w.what.Load() == what {
			fmt.Fprintf(mutateTerminal, "%s\ntakes %v, %v of processors, and %d MB:%s\n", *what, took.Round(time.Millisecond), used.Round(time.Millisecond), size>>20, memoryClasses())
			os.Exit(1)
		}
	}
}

// memoryClasses tells what memory is used for.
func memoryClasses() (text string) {
	for _, d := range metrics.All() {
		if name, ok := strings.CutPrefix(d.Name, "/memory/classes/"); ok {
			sample := []metrics.Sample{{Name: d.Name}}
			metrics.Read(sample)
			text += fmt.Sprintf(" %s %d MB", strings.TrimSuffix(name, ":bytes"), sample[0].Value.Uint64()>>20)
		}
	}
	return text
}

// A mutateGroup is files that belong together: one of them is changed.
type mutateGroup struct {
	kind  string
	files map[string][]byte
	fixed string   // the one that is not
	parts [][2]int // from and to: of the other one, where most changes are to be; nil: anywhere
}

// remove removes the files, and what commands made beside them.
func (g *mutateGroup) remove() {
	made, _ := os.ReadDir(".")
	for _, e := range made {
		if e.Name() != "slowest" {
			_ = os.RemoveAll(e.Name())
		}
	}
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

// mutate changes one of the files: of parts, three times of four, nothing else, and not how long they are.
func (g *mutateGroup) mutate(random *rand.Rand, b, other []byte) []byte {
	if g.parts == nil || random.IntN(4) == 0 {
		return mutate(random, b, other)
	}
	b = slices.Clone(b)
	part := g.parts[random.IntN(len(g.parts))]
	copy(b[part[0]:part[1]], mutate(random, b[part[0]:part[1]], other))
	return b
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
	case "directories of data":
		return [][]string{{"merge", "-o", "sum", "one", "two"}, {"rewrite", "-o", "scaled", "-s", "0.5", "one"}, {"overlap", "-f", "one", "two"}}
	case "stream of data":
		return [][]string{{"merge-stream", "-o", "sum", "m.stream"}}
	case "LLVM profraw", "LLVM profdata", "LLVM binary":
		return [][]string{
			append([]string{"report", "m.prof", "--object", "main"}, show...),
			{"llvm-profdata", "merge", "-sparse", "-o", "out.profdata", "m.prof"},
			{"llvm-profdata", "show", "-all-functions", "-counts", "-topn=5", "m.prof"},
			{"llvm-cov", "export", "-instr-profile=m.prof", "main"},
			{"llvm-cov", "show", "-instr-profile=m.prof", "-show-expansions", "-show-branches=count", "-show-mcdc", "main"},
		}
	case "Go":
		return [][]string{append([]string{"report", "cov"}, show...), {"covdata", "func", "-i=cov"}, {"covdata", "debugdump", "-i=cov"}, {"covdata", "merge", "-i=cov", "-o=."}}
	case "profile":
		return [][]string{profiled("m.profile")}
	case "program":
		return [][]string{profiled("m.program", "gmon.out")}
	case "trace":
		return [][]string{{"trace", "--no-config", "--read", "m.trace", "--output", "graph=out.graph", "--output", "stats=out.stats", "--output", "json=out.json", "--output", "perfetto=out.perfetto"}}
	case "assembly":
		return [][]string{{"instrument", "-o", "out.s", "m.s"}, {"instrument", "--update", "split", "-o", "out.s", "m.s"}}
	case "source":
		return [][]string{append([]string{"report", "m.info", "--exclude-noncode", "--exclude-branches", "assert"}, show...)}
	case "two reports":
		return [][]string{{"diff", "--no-config", "old.report", "new.report"}, {"merge", "-o", "sum.info", "old.report", "new.report"}}
	case "options":
		return [][]string{append([]string{"report", "m.info", "--config", "m.toml"}, show[1:]...)}
	case "diff":
		return [][]string{append([]string{"report", "m.info", "--diff-base", "m.diff"}, show...)}
	}
	return [][]string{append([]string{"report", "m.report"}, show...)}
}

func profiled(sources ...string) []string {
	return append(append([]string{"profile", "--no-config"}, sources...), "--output", "text=out.txt", "--output", "html=out.html", "--output", "callgrind=out.callgrind")
}

// mutateSeeds are the files of our tests.
func mutateSeeds(t *testing.T) (groups []*mutateGroup) {
	packed := make(map[string][]byte)
	for _, name := range []string{"gcc", "clang", "old", "paths", "legacy"} {
		unpackSeeds(t, filepath.Join("../formats/gcov/testdata", name+".tar.zst"), packed)
	}
	var dirs []*mutateGroup
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
				if data := g.files["m.gcda"]; data != nil {
					dirs = append(dirs, &mutateGroup{kind: "directories of data", files: map[string][]byte{"one/m.gcda": data, "two/m.gcda": data}})
				}
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
	slices.SortFunc(dirs, func(a, b *mutateGroup) int { return bytes.Compare(a.any(), b.any()) })
	groups, dirs = someOf(groups, mostMutateSeeds), someOf(dirs, 20)
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
		case strings.Contains(name, "instrument/testdata/rewrite/") && filepath.Ext(name) == ".s":
			groups = append(groups, &mutateGroup{kind: "assembly", files: map[string][]byte{"m.s": b}})
		case name == "../testdata/perf/program":
			groups = append(groups, &mutateGroup{kind: "program", files: map[string][]byte{"m.program": b, "gmon.out": gmonSeed()}})
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
	for _, g := range dirs {
		groups = append(groups, g, &mutateGroup{kind: "stream of data", files: map[string][]byte{"m.stream": slices.Concat([]byte("nfcg\x2a23B\x07\x00\x00\x00m.gcda\x00"), g.any())}})
	}
	groups = append(append(groups, llvmSeeds(t)...), goSeeds(t)...)
	source := []byte("/* A comment. */\n#include <assert.h>\nint f(int x) { // LCOV_EXCL_LINE\n\treturn x ? '\\'' : \"\\\"\"[0];\n}\n// GCOVR_EXCL_START\nint main(void)\n{\n\tassert(f(1));\n}\n// GCOVR_EXCL_STOP\n")
	for _, name := range []string{"m.c", "m.cc", "m.rs", "m.go", "m.f90", "m.adb", "m.d"} {
		lines := "SF:" + name + "\n"
		for i := range 11 {
			lines += fmt.Sprintf("DA:%d,%d\nBRDA:%d,0,0,1\n", i+1, i%3, i+1)
		}
		groups = append(groups, &mutateGroup{kind: "source", fixed: "m.info", files: map[string][]byte{"m.info": []byte(lines + "end_of_record\n"), name: source}})
	}
	groups = append(groups,
		&mutateGroup{kind: "two reports", files: map[string][]byte{"old.report": info, "new.report": info}},
		&mutateGroup{kind: "trace", files: map[string][]byte{"m.trace": traceSeed(t)}})
	return groups
}

// llvmSeeds are profiles of all versions with the programs that they are of: either is changed.
func llvmSeeds(t *testing.T) []*mutateGroup {
	var raw, indexed, binaries []*mutateGroup
	for _, f := range llvmfixtures.All(t) {
		program := f.Files["main"]
		if len(program) > 200000 || !bytes.Contains(program, []byte("__llvm_covmap")) {
			continue
		}
		parts := coverageParts(t, program)
		for _, name := range slices.Sorted(maps.Keys(f.Files)) {
			files := map[string][]byte{"m.prof": f.Files[name], "main": program}
			switch {
			case len(f.Files[name]) == 0:
			case path.Ext(name) == ".profraw":
				raw = append(raw, &mutateGroup{kind: "LLVM profraw", fixed: "main", files: files})
			case path.Ext(name) == ".profdata":
				indexed = append(indexed, &mutateGroup{kind: "LLVM profdata", fixed: "main", files: files})
				binaries = append(binaries, &mutateGroup{kind: "LLVM binary", fixed: "m.prof", files: files, parts: parts})
			}
		}
	}
	return slices.Concat(someOf(raw, 100), someOf(indexed, 100), someOf(binaries, 100))
}

// coverageParts are the sections of a program that say what its counters are of, and the headers.
func coverageParts(t *testing.T, program []byte) (parts [][2]int) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, "__llvm_") && s.Type != elf.SHT_NOBITS && s.Size > 0 {
			parts = append(parts, [2]int{int(s.Offset), int(s.Offset + s.FileSize)})
		}
	}
	return append(parts, [2]int{0, 64})
}

// goSeeds are what a program of Go writes, in two modes.
func goSeeds(t *testing.T) (groups []*mutateGroup) {
	module := gofixtures.Module(t)
	for _, mode := range []string{"set", "count"} {
		dir := t.TempDir()
		cmd := exec.Command(gofixtures.Build(t, module, mode))
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+dir)
		cmd.Stdin = strings.NewReader("push a\nmax\nhook\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		g := &mutateGroup{kind: "Go", files: make(map[string][]byte)}
		written, err := os.ReadDir(dir)
		for _, e := range written {
			b, failed := os.ReadFile(filepath.Join(dir, e.Name()))
			g.files["cov/"+e.Name()], err = b, errors.Join(err, failed)
		}
		if err != nil || len(g.files) != 2 {
			t.Fatalf("%d files of counters of Go: %v", len(g.files), err)
		}
		groups = append(groups, g)
	}
	return groups
}

// someOf keeps some of many that are alike; all take hundreds of MB.
func someOf(groups []*mutateGroup, most int) (kept []*mutateGroup) {
	for i := 0; i < len(groups); i += max(1, len(groups)/most) {
		kept = append(kept, groups[i])
	}
	return kept
}

// gmonSeed is a gmon.out of testdata/perf/program: ticks and an arc.
func gmonSeed() []byte {
	b := append([]byte("gmon\x01\x00\x00\x00"), make([]byte, 12)...)
	b = binary.LittleEndian.AppendUint64(append(b, 0), 0x401000)
	b = binary.LittleEndian.AppendUint64(b, 0x401100)
	b = binary.LittleEndian.AppendUint32(b, 64)  // counters
	b = binary.LittleEndian.AppendUint32(b, 100) // a second
	b = append(b, "seconds\x00\x00\x00\x00\x00\x00\x00\x00s"...)
	for i := range 64 {
		b = binary.LittleEndian.AppendUint16(b, uint16(i))
	}
	b = binary.LittleEndian.AppendUint64(append(b, 1), 0x401020)
	b = binary.LittleEndian.AppendUint64(b, 0x401040)
	return binary.LittleEndian.AppendUint32(b, 7)
}

// traceSeed is a recording of two threads, with arguments.
func traceSeed(t *testing.T) []byte {
	var b bytes.Buffer
	w := trace.NewRawWriter(&b, &trace.Header{PID: 4711, Program: "/bin/prog", Start: 1e18, Exits: true, Functions: []trace.Function{
		{Name: "main", Image: "/bin/prog"}, {Name: "work", Image: "/bin/prog", File: "prog.c", Line: 3, Arguments: []trace.Argument{{Name: "d", Format: "d32"}, {Name: "s", Format: "s"}}},
	}})
	for thread := range 2 {
		at := uint64(1000 * thread)
		w.Add(trace.Thread{ID: 4711 + thread, Name: "prog"}, []trace.Event{
			{Time: at, Function: 0, Stack: 1000}, {Time: at + 10, Function: 1, Stack: 900}, {Time: 42, Word: true}, {Time: 5, Word: true}, {Time: 0x6f6c6c6568, Word: true},
			{Time: at + 20, Function: 1, Stack: 900, Exit: true}, {Time: at + 30, Function: 1, Stack: 900, NoExit: true}, {Time: at + 40, Function: 0, Stack: 1000, Exit: true},
		})
	}
	w.AddFunctions([]trace.Function{{Name: "late", Image: "/lib/late.so"}})
	w.SetFilter(trace.Filter{})
	w.EndPass()
	if err := w.Close(3); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
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
		if random.IntN(4) == 0 { // where most formats have their lengths
			at %= 256
		}
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
