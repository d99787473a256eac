package profile

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/binary"
)

// build compiles programs of testdata.
func build(t *testing.T, compiler string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	args = append(args, "-o", program)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", compiler, strings.Join(args, " "), err, out)
	}
	return program
}

// gmonOf runs a program that was built with -pg and returns its gmon.out.
func gmonOf(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return filepath.Join(cmd.Dir, "gmon.out")
}

func readGmonFile(t *testing.T, name string) *Gmon {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ReadGmon(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawTicks replaces the ticks of a gmon.out by drawn ones: where real ones fall is chance, and
// mostly the same functions have them. Some functions have none, many cost the same.
func drawTicks(t *testing.T, program, gmon string, dice *rand.Rand) string {
	t.Helper()
	b, err := os.ReadFile(gmon)
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := binary.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := f.Functions()
	if err != nil {
		t.Fatal(err)
	}
	g := readGmonFile(t, gmon)
	h := g.Histograms[0]
	const unit = 15 + 1 // its name, and a letter for it
	bins := b[gmonHeaderSize+1+2*g.AddrSize+4+4+unit:][:2*len(h.Bins)]
	clear(bins)
	scale := float64(h.High-h.Low) / float64(len(h.Bins))
	ran := make(map[uint64]*binary.FunctionSymbol)
	for _, a := range g.Arcs {
		if fn := functions.At(a.Self); fn != nil {
			ran[fn.Addr] = fn
		}
	}
	for _, at := range slices.Sorted(maps.Keys(ran)) {
		n := dice.IntN(3)
		if ran[at].Name == "helper" {
			n++ // who calls it costs something
		}
		for range n {
			i := int(float64(at+dice.Uint64N(ran[at].Size)-h.Low) / scale)
			bins[2*i] = byte(1 + dice.IntN(4))
		}
	}
	drawn := filepath.Join(t.TempDir(), "gmon.out")
	if err := os.WriteFile(drawn, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return drawn
}

// TestGprofConfirm compares with what gprof prints, to the byte.
func TestGprofConfirm(t *testing.T) {
	for _, test := range []struct {
		name string
		args string
		// edit makes gprof's output what is right; in a sum that gprof -s wrote it is.
		edit func(string) string
	}{
		{name: "pie", args: "gcc-12 -O1 -g"},
		{name: "O0", args: "gcc-12 -O0 -g"},
		{name: "no-pie", args: "gcc-12 -O2 -no-pie -g"},
		{name: "i386", args: "gcc-12 -O1 -g -m32"},
		{name: "gcc-11", args: "gcc-11 -O1 -g"},
		{name: "static", args: "gcc-12 -O1 -g -static", edit: func(s string) string {
			// gprof knows no names with ".part." and takes their code for that of
			// the function before.
			return strings.ReplaceAll(s, "getenv", "msort_with_tmp.part.0")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(test.args)
			program := build(t, args[0], append(args[1:], "-pg", "testdata/calls.c", "testdata/other.c")...)
			ran, dice := gmonOf(t, program), rand.New(rand.NewPCG(1, 2))
			var files []string
			for range 20 {
				files = append(files, drawTicks(t, program, ran, dice))
				confirmGprof(t, program, files[len(files)-1:], test.edit)
			}
			confirmGprof(t, program, files[:2], test.edit)
			sum := exec.Command("gprof", append([]string{"-s", program}, files...)...)
			sum.Dir = t.TempDir()
			if out, err := sum.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", sum.Args, err, out)
			}
			confirmGprof(t, program, []string{filepath.Join(sum.Dir, "gmon.sum")}, nil)
		})
	}
}

// TestGprofConfirmCPlusPlus compares programs of C++, in which many functions cost the same: they are in
// the order of their linker names. What gprof does not take for functions is left out.
func TestGprofConfirmCPlusPlus(t *testing.T) {
	for _, args := range []string{"-O0 -g", "-O1 -no-pie", "-O1 -g"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			program := build(t, "g++-12", append(strings.Fields(args), "-pg", "-fno-ipa-sra", "-fno-ipa-cp", "-fno-partial-inlining", "testdata/gprof.cc")...)
			ran, dice := gmonOf(t, program), rand.New(rand.NewPCG(1, 2))
			for range 20 {
				files := []string{drawTicks(t, program, ran, dice), drawTicks(t, program, ran, dice)}
				confirmGprof(t, program, files[:1], nil)
				confirmGprof(t, program, files, nil)
			}
		})
	}
}

// sameButRounding tells whether two lines are the same but for the last digit of
// a percentage: 98.75 is 98.7 or 98.8 by the order in which times were added up.
func sameButRounding(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	fieldsA, fieldsB := strings.Fields(a), strings.Fields(b)
	at := 0 // [index] % time ..., or % time ...
	if strings.HasPrefix(a, "[") {
		at = 1
	}
	if len(fieldsA) <= at || len(fieldsB) <= at || !slices.Equal(slices.Delete(slices.Clone(fieldsA), at, at+1), slices.Delete(slices.Clone(fieldsB), at, at+1)) {
		return false
	}
	x, errX := strconv.ParseFloat(fieldsA[at], 64)
	y, errY := strconv.ParseFloat(fieldsB[at], 64)
	_, decimals, _ := strings.Cut(fieldsA[at], ".")
	return errX == nil && errY == nil && math.Abs(x-y) < 1.01*math.Pow10(-len(decimals))
}

func confirmGprof(t *testing.T, program string, files []string, edit func(string) string) {
	t.Helper()
	want, err := exec.Command("gprof", append([]string{"-b", "-p", "-q", program}, files...)...).Output()
	if err != nil {
		t.Fatalf("gprof: %v", err)
	}
	sum := readGmonFile(t, files[0])
	for _, f := range files[1:] {
		if err := sum.Add(readGmonFile(t, f)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := sum.Profile(program, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := printGprof(&got, &View{Profile: p, Graph: NewGraph(p)}); err != nil {
		t.Fatal(err)
	}
	if diff := compareGprof(string(want), got.String(), edit); diff != "" {
		t.Errorf("%d files (-gprof +footfall):\n%s", len(files), diff)
	}
}

// compareGprof returns how the outputs differ, but for what chance decides: which
// functions a tick of the clock has met.
func compareGprof(want, got string, edit func(string) string) string {
	if edit != nil {
		edited := edit(want)
		if edited != want { // its index has other names, in another order
			edited, got = sortedIndex(edited), sortedIndex(got)
		}
		want = edited
	}
	wanted, lines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wanted), len(lines)) {
		if sameButRounding(wanted[i], lines[i]) {
			lines[i] = wanted[i]
		}
	}
	return cmp.Diff(wanted, lines)
}

// sortedIndex puts the names of the index into lines of their own, in order.
func sortedIndex(s string) string {
	before, index, _ := strings.Cut(s, "\nIndex by function name\n")
	var names []string
	for _, name := range strings.Split(index, "[")[1:] {
		names = append(names, strings.Join(strings.Fields(name), " "))
	}
	slices.Sort(names)
	return before + "\n" + strings.Join(names, "\n")
}
