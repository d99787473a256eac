package report

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
)

// randomTracefile returns a tracefile of two sources as several tools write it:
// names and places are few, so that files have much in common, and order is none.
func randomTracefile(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		fmt.Fprintf(&b, "TN:%s\nSF:/%c.cc\n", []string{"", "", "one", "two"}[r.IntN(4)], 'a'+r.IntN(2))
		var records []string
		record := func(format string, args ...any) { records = append(records, fmt.Sprintf(format, args...)) }
		for i := range 3 {
			line, end := 1+10*r.IntN(2), 8
			names := []string{"f", "g", "f.part.0", "f.g", "f.h", "_Z1fIiEvv", "_Z1fIlEvv"}
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			names = names[:1+r.IntN(2)]
			if r.IntN(2) == 0 {
				record("FNL:%d,%d,%d", i, line, line+end)
				for _, name := range names {
					records[len(records)-1] += fmt.Sprintf("\nFNA:%d,%d,%s", i, r.IntN(3), name)
				}
				continue
			}
			name := []string{"a", "b", "a.b", "a.c", "a.isra.1"}[r.IntN(5)]
			record("FN:%d,%s", line, name)
			record("FNDA:%d,%s", r.IntN(3), name)
		}
		for line := 1; line < 5; line++ {
			if r.IntN(4) == 0 {
				continue
			}
			record("DA:%d,%d", line, r.IntN(3))
			for block := range r.IntN(4) {
				exception := r.IntN(4) == 0
				for way := range 2 + r.IntN(2) {
					flag := ""
					if exception && way == 1 {
						flag = "e"
					}
					record("BRDA:%d,%s%d,%d,%s", line, flag, block, way, []string{"-", "0", "1", "5"}[r.IntN(4)])
				}
			}
			for term := range 2 * r.IntN(2) {
				record("MCDC:%d,2,t,%d,%d,%d\nMCDC:%d,2,f,%d,%d,%d", line, r.IntN(2), term, term, line, r.IntN(2), term, term)
			}
		}
		r.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		b.WriteString(strings.Join(records, "\n") + "\nend_of_record\n")
	}
	return b.String()
}

// randomCobertura returns a report that knows of branches only how many were taken.
func randomCobertura(r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<coverage><packages><package><classes><class filename="/a.cc"><methods>`+
		`<method name="f" signature="(int)"><lines><line number="1" hits="%d"/></lines></method></methods><lines>`, r.IntN(3))
	for line := 1; line < 5; line++ {
		n := 2 + r.IntN(4)
		fmt.Fprintf(&b, `<line number="%d" hits="%d" branch="true" condition-coverage="1%% (%d/%d)"/>`, line, r.IntN(3), r.IntN(n+1), n)
	}
	return b.String() + "</lines></class></classes></package></packages></coverage>"
}

// randomNative returns a report of footfall's of what is known with columns, as
// compilers tell it.
func randomNative(t *testing.T, r *rand.Rand) string {
	f := &coverage.File{Name: "/a.cc"}
	for column := int32(3); column < 10; column += 3 {
		fn := &coverage.Function{StartLine: 1, StartColumn: column, EndLine: 4}
		for _, name := range []string{"_Z1fIiEvv", "_Z1fIlEvv", "_Z1gv"} {
			if r.IntN(2) == 0 {
				in := coverage.Instance{Name: name, Count: r.Int64N(3)}
				fn.Instances = append(fn.Instances, in)
				fn.Count += in.Count
			}
		}
		if len(fn.Instances) > 0 {
			fn.Name = fn.Instances[0].Name
			f.Functions = append(f.Functions, fn)
		}
	}
	for n := int32(1); n < 5; n++ {
		l := coverage.Line{Number: n, Count: r.Int64N(3)}
		for block := range r.Int32N(3) {
			for range 2 {
				l.Branches = append(l.Branches, coverage.Branch{Block: block, Count: r.Int64N(2), Evaluated: true, Exception: block == 1})
			}
		}
		f.Lines = append(f.Lines, l)
	}
	return written(t, &Report{Set: coverage.NewSet(f), Shown: func(path string) string { return path }}, "json")
}

// TestMergeOfFiles merges random reports at once, in another order, and by way
// of a file with two of them: all are the same.
func TestMergeOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	merged := func(names ...string) *Report {
		set, problems := ReadFiles(names, ReadOptions{})
		if problems = append(problems, Reconcile(set)...); len(problems) > 0 {
			t.Fatal(problems)
		}
		return &Report{Set: set, Shown: func(path string) string { return path }, ExceptionBranches: true}
	}
	for _, format := range []string{"json", "lcov", "lcov2"} {
		t.Run(format, func(t *testing.T) {
			for seed := range uint64(200) {
				r := rand.New(rand.NewPCG(seed, 7))
				names := make([]string, 3)
				for i := range names {
					text := randomTracefile(r)
					if kind := r.IntN(4); kind == 0 && format == "json" {
						text = randomCobertura(r)
					} else if kind == 1 && format == "json" {
						text = randomNative(t, r)
					}
					names[i] = write(fmt.Sprint(i), text)
				}
				a, b, c := names[0], names[1], names[2]
				result := func(names ...string) string { return written(t, merged(names...), format) }
				by := func(names ...string) string { return write("by", result(names...)) }
				want := result(a, b, c)
				for way, got := range map[string]string{
					"c, a, b":     result(c, a, b),
					"(a, b), c":   result(by(a, b), c),
					"a, (b, c)":   result(a, by(b, c)),
					"((a, b, c))": result(by(a, b, c)),
				} {
					if got != want {
						t.Fatalf("seed %d: a, b, c and %s differ:\n%s", seed, way, cmp.Diff(want, got))
					}
				}
			}
		})
	}
}

// TestMergeConfirm merges what lcov merges. Sets have the same branches, since
// lcov 1 knows them only by their number on a line.
func TestMergeConfirm(t *testing.T) {
	if _, err := exec.LookPath("lcov"); err != nil {
		t.Fatal(err) // scripts/test installs it
	}
	t.Chdir(t.TempDir())
	counts := regexp.MustCompile(`(?m)^(DA:\d+,|FNDA:|BRDA:\d+,\d+,\d+,)\d+`)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 8))
		var b strings.Builder
		for i := range 2 {
			fmt.Fprintf(&b, "TN:\nSF:/%d.c\n", i)
			for line := 1; line < 9; line++ {
				if r.IntN(2) == 0 {
					fmt.Fprintf(&b, "FN:%d,f%d\nFN:%d,o.f%d\nFNDA:0,o.f%d\nFNDA:0,f%d\n", line, line, line, line, line, line)
				}
				fmt.Fprintf(&b, "DA:%d,0\n", line)
				for block := range r.IntN(3) {
					for way := range 2 + r.IntN(2) {
						fmt.Fprintf(&b, "BRDA:%d,%d,%d,0\n", line, block, way)
					}
				}
			}
			b.WriteString("end_of_record\n")
		}
		args := []string{"--quiet", "--rc", "lcov_branch_coverage=1", "--output-file", "lcov.info"}
		var names []string
		for i := range 3 {
			name := fmt.Sprintf("%d.info", i)
			text := counts.ReplaceAllStringFunc(b.String(), func(record string) string { return record[:len(record)-1] + fmt.Sprint(r.IntN(4)) })
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			names, args = append(names, name), append(args, "--add-tracefile", name)
		}
		if out, err := exec.Command("lcov", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		ours, _ := ReadFiles(names, ReadOptions{})
		Reconcile(ours)
		theirs, _, err := ReadFile("lcov.info", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(theirs.Files(), ours.Files()); diff != "" {
			t.Fatalf("seed %d: (-lcov +footfall)\n%s", seed, diff)
		}
	}
}

// TestOrphansOfFiles says what no file of several knows the line of.
func TestOrphansOfFiles(t *testing.T) {
	set := coverage.NewSet(&coverage.File{Name: "/a.c", Lines: []coverage.Line{{Number: 3, Uncounted: true}}})
	problems := Reconcile(set)
	if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "/a.c: branches or conditions of line 3 are left out") || len(set.At(0).Lines) > 0 {
		t.Errorf("problems %v, lines %v", problems, set.At(0).Lines)
	}
}
