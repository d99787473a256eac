package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"footfall/output"
	"footfall/report"
)

// TestReportIsReproducible writes every output twice, by one goroutine at a time
// and by several, and compares the bytes.
func TestReportIsReproducible(t *testing.T) {
	source, err := os.ReadFile("../testdata/exclude/marks.cc")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	build(t, dir, "g++-12", map[string]string{
		"marks.cc":  string(source),
		"inc/max.h": "#pragma once\ntemplate <class T>\nT most(T a, T b)\n{\n\treturn a < b ? b : a; // LCOV_EXCL_BR_LINE\n}\n",
		"a.cc":      "#include \"inc/max.h\"\n\nint a(int n)\n{\n\treturn most(n, 2) + most(n > 1, false);\n}\n",
		"b.cc":      "#include \"inc/max.h\"\n\nlong b(long n)\n{\n\tif (n > 3 && n < 5)\n\t\treturn 1;\n\treturn most(n, 2L) + (long)most(1.5, 2.5);\n}\n",
	})
	outs := []string{filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")}
	for i, out := range outs {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1 + 3*i))
		if err := os.Mkdir(out, 0o777); err != nil {
			t.Fatal(err)
		}
		args := []string{"footfall", "report", "--root", dir, "--test", "all", dir}
		for _, format := range output.FormatNames(report.Formats()) {
			// A name that ends so may be another form of the format.
			for _, ext := range []string{"", ".html"} {
				args = append(args, "--output", format+"="+filepath.Join(out, format+ext))
			}
		}
		if status := run(args); status != 0 {
			t.Fatalf("footfall report: exit status %d", status)
		}
	}
	first, second := readTree(t, outs[0]), readTree(t, outs[1])
	if len(first) < 2*len(report.Formats()) {
		t.Errorf("only %d files were written", len(first))
	}
	for name := range second {
		if _, ok := first[name]; !ok {
			t.Errorf("%s is only there the second time", name)
		}
	}
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s is not the same the second time", name)
		}
	}
}

// readTree returns the contents of all files below dir.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
