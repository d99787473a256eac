package command

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReportConfirm gives the same coverage data to lcov, which asks the
// compiler's gcov, and compares how often lines ran and functions were called.
// On the lines in differs it compares whether they ran.
func TestReportConfirm(t *testing.T) {
	for _, program := range []struct {
		name, compiler string
		files          map[string]string
		differs        map[string]string // "file:line": why the count is not gcov's
	}{
		{
			name: "C with a shared header", compiler: "gcc-12",
			files: map[string]string{
				"lib/buf.h":  "static inline int full(int n) {\n\tif (n > 9)\n\t\treturn 1;\n\treturn 0;\n}\nint put(int);\nint unused(int);\n",
				"lib/buf.c":  "#include \"buf.h\"\n\nint put(int n)\n{\n\tif (full(n))\n\t\treturn -1;\n\treturn n;\n}\n",
				"lib/idle.c": "#include \"buf.h\"\n\nint unused(int n)\n{\n\twhile (n-- && !full(n))\n\t\t;\n\treturn n;\n}\n",
				"app/buf.c": "#include \"../lib/buf.h\"\n\nint main(void)\n{\n\tint sum = 0;\n\tfor (int i = 0; i < 7; i++)\n\t\tsum += i % 2 ? put(i) : full(i);\n" +
					"\tswitch (sum) {\n\tcase 1:\n\t\tsum--;\n\t\tbreak;\n\tcase 9:\n\t\treturn 0;\n\tdefault:\n\t\tsum++;\n\t}\n\treturn 1;\n}\n",
			},
		},
		{
			name: "C++ with templates and exceptions", compiler: "g++-12",
			files: map[string]string{
				"inc/stack.h": "#pragma once\n#include <stdexcept>\n#include <vector>\n\ntemplate <class T>\nclass Stack {\npublic:\n\tT pop()\n\t{\n\t\tif (items.empty())\n\t\t\tthrow std::runtime_error(\"empty\");\n" +
					"\t\tT top = items.back();\n\t\titems.pop_back();\n\t\treturn top;\n\t}\n\tvoid push(T item) { items.push_back(item); }\n\tbool idle() const\n\t{\n\t\treturn items.empty();\n\t}\n\nprivate:\n\tstd::vector<T> items;\n};\n",
				"src/use.cc": "#include \"../inc/stack.h\"\n\nint use()\n{\n\tStack<long> s;\n\ts.push(4);\n\treturn s.pop() == 4 && s.idle();\n}\n",
				"src/main.cc": "#include \"../inc/stack.h\"\n#include <string>\n\nint use();\n\nint main()\n{\n\tStack<std::string> s;\n\tfor (int i = 0; i < 3; i++)\n\t\ts.push(\"x\");\n\ttry {\n\t\twhile (true)\n\t\t\ts.pop();\n" +
					"\t} catch (const std::runtime_error &e) {\n\t\treturn use() ? 0 : 1;\n\t}\n}\n",
			},
			differs: map[string]string{"src/use.cc:7": "ran once; control came back to it from pop() and from idle()"},
		},
	} {
		t.Run(program.name, func(t *testing.T) {
			dir := t.TempDir()
			build(t, dir, program.compiler, program.files)
			theirs, ours := filepath.Join(dir, "theirs.info"), filepath.Join(dir, "ours.info")
			command(t, dir, "lcov", "--quiet", "--capture", "--directory", ".", "--gcov-tool", "gcov-12", "--no-external", "--output-file", theirs)
			if status := run([]string{"footfall", "report", "--root", dir, "--output", "lcov1=" + ours, dir}); status != 0 {
				t.Fatalf("footfall report: exit status %d", status)
			}
			want, got := readTracefile(t, theirs), readTracefile(t, ours)
			for line := range program.differs {
				if want[line] == got[line] {
					t.Errorf("%s: no difference, both say %d", line, got[line])
				}
				want[line], got[line] = min(want[line], 1), min(got[line], 1)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-lcov +footfall)\n%s", diff)
			}

			// Both read ours, and count the same.
			summary := func(tracefile string) string {
				return command(t, dir, "lcov", "--rc", "lcov_branch_coverage=0", "--summary", tracefile)
			}
			a, b := summary(theirs), summary(ours)
			if diff := cmp.Diff(strings.ReplaceAll(a, theirs, ""), strings.ReplaceAll(b, ours, "")); diff != "" {
				t.Errorf("lcov --summary (-lcov +footfall)\n%s", diff)
			}
			command(t, dir, "genhtml", "--quiet", "--branch-coverage", "--output-directory", "html", ours)
		})
	}
}

// build writes the files, compiles each source in its directory, and runs the
// program.
func build(t *testing.T, dir, compiler string, files map[string]string) {
	t.Helper()
	var objects []string
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name := range files {
		ext := filepath.Ext(name)
		if ext == ".h" {
			continue
		}
		base := strings.TrimSuffix(filepath.Base(name), ext)
		command(t, filepath.Join(dir, filepath.Dir(name)), compiler, "--coverage", "-c", base+ext)
		objects = append(objects, strings.TrimSuffix(name, ext)+".o")
	}
	command(t, dir, compiler, append([]string{"--coverage", "-o", "prog"}, objects...)...)
	command(t, dir, "./prog")
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// readTracefile returns the counts of lines by "file:line" and those of
// functions by "file:name". What has several records is summed up, as lcov
// does.
func readTracefile(t *testing.T, name string) map[string]int {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts := make(map[string]int)
	source := ""
	for s := bufio.NewScanner(f); s.Scan(); {
		tag, rest, _ := strings.Cut(s.Text(), ":")
		a, b, _ := strings.Cut(rest, ",")
		switch tag {
		case "SF":
			source = filepath.Base(filepath.Dir(rest)) + "/" + filepath.Base(rest)
			continue
		case "FNDA":
			a, b = b, a
		case "DA":
		default:
			continue
		}
		n, err := strconv.Atoi(b)
		if err != nil {
			t.Fatal(err)
		}
		counts[source+":"+a] += n
	}
	if len(counts) == 0 {
		t.Fatalf("%s: nothing in it", name)
	}
	return counts
}
