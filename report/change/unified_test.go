package change

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plainDiff is a diff as a string of the test: name, name, edits.
func plainDiff(d *Diff) []string {
	var out []string
	for _, f := range d.Files {
		s := fmt.Sprintf("%q %q", f.Old, f.New)
		for _, e := range f.Edits {
			s += fmt.Sprintf(" -%d,%d+%d,%d", e.Old, e.Deleted, e.New, e.Inserted)
		}
		if why, _, _ := strings.Cut(f.untold, ","); why != "" {
			s += " " + why
		}
		out = append(out, s)
	}
	return out
}

var diffs = []struct {
	name, text string
	want       []string
}{
	{
		"git",
		"diff --git a/src/a.c b/src/a.c\nindex 1..2 100644\n--- a/src/a.c\n+++ b/src/a.c\n@@ -1,4 +1,5 @@ int f(void)\n one\n-two\n+TWO\n+2\n three\n four\n@@ -10 +10,0 @@\n-ten\n",
		[]string{`"src/a.c" "src/a.c" -2,1+2,2 -10,1+11,0`},
	},
	{
		"new, deleted, binary, mode, empty",
		"diff --git a/n.c b/n.c\nnew file mode 100644\n--- /dev/null\n+++ b/n.c\n@@ -0,0 +1,2 @@\n+a\n+b\ndiff --git a/d.c b/d.c\n--- a/d.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" +
			"diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\ndiff --git a/m b/m\nold mode 100644\nnew mode 100755\ndiff --git a/e b/e\nnew file mode 100644\nindex 000..e69\n",
		[]string{`"" "n.c" -1,0+1,2`, `"d.c" "" -1,1+1,0`, `"p.png" "p.png" taken for binary`},
	},
	{
		"renamed, renamed and changed, copied",
		"diff --git a/o.c b/n.c\nsimilarity index 100%\nrename from o.c\nrename to n.c\ndiff --git a/o2.c b/n2.c\nsimilarity index 90%\nrename from o2.c\nrename to n2.c\n--- a/o2.c\n+++ b/n2.c\n@@ -3,0 +4 @@\n+x\n",
		[]string{`"o.c" "n.c"`, `"o2.c" "n2.c" -4,0+4,1`},
	},
	{
		"odd names",
		"--- \"a/h\\303\\244 \\\"x\\\"\\t.c\"\n+++ \"b/h\\303\\244 \\\"x\\\"\\t.c\"\n@@ -1 +1 @@\n-a\n+b\n--- a/with space.c\t\n+++ b/with space.c\t\n@@ -1 +1 @@\n-a\n+b\n",
		[]string{`"hä \"x\"\t.c" "hä \"x\"\t.c" -1,1+1,1`, `"with space.c" "with space.c" -1,1+1,1`},
	},
	{
		"no newline at the end",
		"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n\\ No newline at end of file\n+zwei\n\\ No newline at end of file\n--- a/y\n+++ b/y\n@@ -1 +1,2 @@\n-one\n\\ No newline at end of file\n+one\n+two\n",
		[]string{`"x" "x" -2,1+2,1`, `"y" "y" -1,1+1,2`},
	},
	{
		"other programs",
		"Index: s.c\n===\n--- s.c\t(revision 3)\n+++ s.c\t(working copy)\n@@ -1 +1 @@\n-a\n+b\n--- old/dir/g.c\t2026-01-02 03:04:05.0 +0100\n+++ new/dir/g.c\t2026-01-02 03:04:06.0 +0100\n@@ -2,3 +2,3 @@\n \n-a\n+b\n\n",
		[]string{`"s.c" "s.c" -1,1+1,1`, `"old/dir/g.c" "new/dir/g.c" -3,1+3,1`},
	},
	{"other prefixes", "--- i/a.c\n+++ w/a.c\n@@ -1 +1 @@\n-a\n+b\n--- a/a.c\n+++ a/a.c\n@@ -1 +1 @@\n-a\n+b\n", []string{`"a.c" "a.c" -1,1+1,1`, `"a/a.c" "a/a.c" -1,1+1,1`}},
	{"lines that look like headers", "--- a/q\n+++ b/q\n@@ -1,2 +1,2 @@\n--- a\n-x\n+++ b\n+@@ -1 +1 @@\n", []string{`"q" "q" -1,2+1,2`}},
	{"a mail", "From: me\nSubject: x\n\n---\n a | 1 +\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39\n", []string{`"a" "a" -1,1+1,1`}},
	{"CR LF", "--- a/a\r\n+++ b/a\r\n@@ -1,2 +1,2 @@\r\n x\r\n-a\r\n+b\r\n", []string{`"a" "a" -2,1+2,1`}},
	{
		"names without prefixes, in directories called so",
		"diff --git b/t.c b/t.c\nnew file mode 100644\nindex 0000000..257cc56\n--- /dev/null\n+++ b/t.c\n@@ -0,0 +1 @@\n+x\ndiff --git w/a/t.c w/a/t.c\nindex 1..2 100644\n--- w/a/t.c\n+++ w/a/t.c\n@@ -1 +1 @@\n-a\n+b\n",
		[]string{`"" "b/t.c" -1,0+1,1`, `"w/a/t.c" "w/a/t.c" -1,1+1,1`},
	},
	{
		"prefixes on request, and such names",
		"diff --git old/b/t x.c new/b/t x.c\ndeleted file mode 100644\nindex 257cc56..0000000\n--- old/b/t x.c\t\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\ndiff --git \"i/b/\\303\\244.c\" \"w/b/\\303\\244.c\"\nnew file mode 100644\n--- /dev/null\n+++ \"w/b/\\303\\244.c\"\n@@ -0,0 +1 @@\n+x\n",
		[]string{`"b/t x.c" "" -1,1+1,0`, `"" "b/ä.c" -1,0+1,1`},
	},
	{
		"Subversion's and Mercurial's new files",
		"Index: b/s.c\n===\n--- b/s.c\t(nonexistent)\n+++ b/s.c\t(working copy)\n@@ -0,0 +1 @@\n+x\nIndex: p\n===\n--- p\t(revision 1)\n+++ p\t(working copy)\n\nProperty changes on: p\n___\nAdded: x\n## -0,0 +1 ##\n+*\n" +
			"diff -r 0123456789ab b/h.c\n--- /dev/null\tThu Jan 01\n+++ b/b/h.c\tThu Jan 01\n@@ -0,0 +1 @@\n+x\ndiff -r 0123456789ab b/n.c\n--- /dev/null\tThu Jan 01\n+++ b/n.c\tThu Jan 01\n@@ -0,0 +1 @@\n+x\n",
		[]string{`"b/s.c" "b/s.c" -1,0+1,1`, `"p" "p"`, `"" "b/h.c" -1,0+1,1`, `"" "b/n.c" -1,0+1,1`},
	},
	{
		"lines that are not told",
		"diff --git a/old.c b/new.c\nsimilarity index 90%\nrename from old.c\nrename to new.c\nindex 1..2 100644\nBinary files a/old.c and b/new.c differ\ndiff --git a/l.c b/l.c\nnew file mode 120000\nindex 0..1\n--- /dev/null\n+++ b/l.c\n@@ -0,0 +1 @@\n+t.c\n\\ No newline at end of file\n" +
			"diff --git a/s b/s\nindex 1..2 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-Subproject commit 12\n+Subproject commit 34-dirty\nSubmodule t 1234567..89abcde:\n  > log\nSubmodule u 1234567..89abcde:\ndiff --git a/u/x.c b/u/x.c\n--- a/u/x.c\n+++ b/u/x.c\n@@ -1 +1 @@\n-a\n+b\n" +
			"Only in new/dir: x.c\nBinary files old/b.c and new/b.c differ\n* Unmerged path m.c\n",
		[]string{
			`"old.c" "new.c" taken for binary`, `"" "l.c" -1,0+1,1 a symbolic link: how what it leads to differs is not in the diff`, `"s" "s" -1,1+1,1 a submodule`, `"" "t" a submodule`, `"u/x.c" "u/x.c" -1,1+1,1`,
			`"" "new/dir/x.c" only in one of two directories`, `"" "new/b.c" taken for binary`, `"" "m.c" not merged yet`,
		},
	},
	{"copied", "diff --git a/o.c b/n.c\nsimilarity index 100%\ncopy from o.c\ncopy to n.c\ndiff --git a/o.c b/o.c\n--- a/o.c\n+++ b/o.c\n@@ -1 +1 @@\n-a\n+b\n", []string{`"o.c" "n.c"`, `"o.c" "o.c" -1,1+1,1`}},
	{"nothing", "", nil},
	{"only a mode", "diff --git a/m b/m\nold mode 100644\nnew mode 100755\n", nil},
}

func TestReadDiff(t *testing.T) {
	for _, test := range diffs {
		t.Run(test.name, func(t *testing.T) {
			d, err := ReadDiff("x.patch", strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, plainDiff(d)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestReadDiffErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"hello\nworld\n", "x.patch: this is not a unified diff; git diff and diff -u write them"},
		{"diff --cc a.c\nindex 1,2..3\n--- a/a.c\n+++ b/a.c\n@@@ -1,1 -1,1 +1,1 @@@\n", "x.patch:1: a combined diff, of a merge, has several old versions: compare with one of them, as git diff BASE does"},
		{"--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n x\n", "x.patch:4: the diff ends 1 lines before its hunk"},
		{"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\nfoo\n", "x.patch:5: a line of the hunk that begins with 'f': 0 old and 1 new lines are missing"},
		{"--- a/a\n+++ b/a\n@@ -x +1 @@\n", `x.patch:3: "@@ -x +1 @@" is not @@ -LINE,COUNT +LINE,COUNT @@`},
		{"--- a/a\n+++ b/a\n@@ -1 +2147483647 @@\n", `x.patch:3: "@@ -1 +2147483647 @@" is not @@ -LINE,COUNT +LINE,COUNT @@`},
		{"--- a/a\n+++ b/a\n@@ -5 +5 @@\n-x\n+y\n@@ -5 +5 @@\n", "x.patch:6: the lines of this hunk are before those of the last one"},
		{"--- a/a\n+++ b/a\n@@ -1 +2 @@\n-x\n+y\n", `x.patch:3: "@@ -1 +2 @@" does not follow from the hunks before it: is one missing?`},
		{"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-y\n+z\n", "x.patch:10: a is changed a second time: of a series of patches, give one diff of all, as git diff BASE writes it"},
		{"--- a/a\n+++ b/a\n", "x.patch:2: the lines of b/a have to follow: is the diff cut?"},
		{"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n--- a/b\n+++ b/", "x.patch:7: the lines of b/ have to follow: is the diff cut?"},
		{"diff --git a/a b/a\nindex 1234567..89abcde 100644\n", "x.patch:2: the lines of a/a b/a have to follow: is the diff cut?"},
		{"diff --git a/a b/a\nnew file mode 100644\nindex 0000000..89abcde\n--- /dev/null\n", "x.patch:4: the lines of a/a b/a have to follow: is the diff cut?"},
		{"diff --git a/a b/c\nsimilarity index 99%\nrename from a\nrename to c\n", "x.patch:4: the lines of a/a b/c have to follow: is the diff cut?"},
		{"diff --git a/a b/a\nindex 1234567..89abcde 100644\ndiff --git a/b b/b\nindex 1234567..89abcde 100644\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n", "x.patch:3: the lines of a/a b/a have to follow: is the diff cut?"},
		{"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n--- a/b\t2026-01-01\n", `x.patch:6: lines have to follow "--- a/b\t2026-01-01": is the diff cut?`},
		{"@@ -1 +1 @@\n-x\n+y\n", "x.patch:1: a hunk of a file whose name is not before it: is a part of the diff missing?"},
		{"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n+z\n", `x.patch:5: there are more lines than "@@ -1 +1 @@" says`},
		{"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\ndiff --git a/a b/c\nsimilarity index 100%\nrename from a\nrename to c\n", "x.patch:10: c is changed a second time: of a series of patches, give one diff of all, as git diff BASE writes it"},
	} {
		_, err := ReadDiff("x.patch", strings.NewReader(test.text))
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.text, err, test.want)
		}
	}
}

// checkEdits fails if the edits of a file are out of order or its two maps of
// lines contradict each other.
func checkEdits(t *testing.T, f *FileDiff, lines int32) {
	t.Helper()
	for i, e := range f.Edits {
		if e.Old < 1 || e.New < 1 || e.Deleted < 0 || e.Inserted < 0 || e.Deleted+e.Inserted == 0 || len(f.inserted[i]) != int(e.Inserted) {
			t.Fatalf("edit %+v", e)
		}
		if i > 0 && (e.Old < f.Edits[i-1].Old+f.Edits[i-1].Deleted || e.New < f.Edits[i-1].New+f.Edits[i-1].Inserted) {
			t.Fatalf("edits out of order: %+v", f.Edits)
		}
	}
	for n := int32(1); n <= lines; n++ {
		if old, ok := f.OldLine(n); ok {
			if again, ok := f.NewLine(old); !ok || again != n {
				t.Fatalf("new line %d was %d, which now is %d (%v): %+v", n, old, again, ok, f.Edits)
			}
		}
	}
}

func FuzzReadDiff(f *testing.F) {
	for _, d := range diffs {
		f.Add([]byte(d.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ReadDiff("x", strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for i := range d.Files {
			checkEdits(t, &d.Files[i], 100)
		}
	})
}

// TestReadDiffConfirm compares with what diff and git write of random texts:
// lines that are said to be the same are.
func TestReadDiffConfirm(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		var versions [2][]string
		old := filepath.Join(dir, "old", "x.c")
		now := filepath.Join(dir, "new", "x.c")
		for i, name := range []string{old, now} {
			for range r.IntN(30) {
				versions[i] = append(versions[i], string(rune('a'+r.IntN(4))))
			}
			text := strings.Join(versions[i], "\n")
			if r.IntN(2) == 0 && text != "" {
				text += "\n"
			}
			if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, program := range [][]string{{"diff", "-u"}, {"diff", "-U0"}, {"git", "diff", "--no-index", "-U1"}} {
			out, err := exec.Command(program[0], append(program[1:], old, now)...).Output()
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
				t.Fatal(err)
			}
			d, err := ReadDiff("x", strings.NewReader(string(out)))
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			f := &FileDiff{}
			if len(d.Files) > 0 {
				f = &d.Files[0]
			}
			checkEdits(t, f, int32(len(versions[1])))
			// What is left of the old version, in its new places, and what was
			// inserted are the new version.
			got := make(map[int32]string)
			for i, text := range versions[0] {
				if n, ok := f.NewLine(int32(i + 1)); ok {
					got[n] = text
				}
			}
			for k, e := range f.Edits {
				for i, text := range f.inserted[k] {
					got[e.New+int32(i)] = text
				}
			}
			var lines []string
			for i := range versions[1] {
				lines = append(lines, got[int32(i+1)])
			}
			if len(got) != len(versions[1]) || !slices.Equal(lines, versions[1]) {
				t.Fatalf("%v: %q became %q\n%s", program, versions[0], lines, out)
			}
		}
	}
}
