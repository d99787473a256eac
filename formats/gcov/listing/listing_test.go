package listing

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
	"footfall/formats/testarchive"
)

// TestFixtures compares what Run prints and writes with what the gcov of each
// compiler did, for all programs and sets of options.
func TestFixtures(t *testing.T) {
	for _, archive := range []string{"gcc", "old", "paths"} {
		t.Run(archive, func(t *testing.T) { testFixtures(t, fixtures.All(t, archive)) })
	}
}

func testFixtures(t *testing.T, list []*fixtures.Fixture) {
	home := "/src/modern" // where the fixtures were made
	for _, fx := range list {
		t.Chdir(fx.Dir)
		place := filepath.Dir(filepath.Dir(fx.Dir))
		for name, b := range fx.Inputs {
			// Sources are found by the absolute name in the notes of these.
			if strings.HasSuffix(fx.Program, "-abs") && strings.HasSuffix(name, ".gcno") {
				moveSources(t, name, b, home, place)
			}
		}
		for _, set := range fx.Sets {
			// Any version of the compiler may have made the fixtures.
			if strings.HasPrefix(fx.Compiler, "gcc-10") {
				replaceIn(set, `"gcc_version": "10.2.1 20210110"`, `"gcc_version": "10.2.0"`)
			}
			if strings.HasSuffix(fx.Program, "-abs") {
				moveSet(set, home, place, fx.Compiler+"/"+fx.Program)
			}
			for _, problem := range runFixture(t, fx, set) {
				t.Errorf("%s/%s: %s: %s: %s", fx.Compiler, fx.Program, set.Name, strings.Join(set.Cmd, " "), problem)
			}
		}
	}
	t.Chdir(t.TempDir())
}

// moveSources changes the directory of all sources that notes name.
func moveSources(t *testing.T, name string, b []byte, from, to string) {
	t.Helper()
	notes, err := gcov.ReadNotes(b)
	if err != nil {
		t.Fatal(err)
	}
	notes.Cwd = strings.Replace(notes.Cwd, from, to, 1)
	for _, fn := range notes.Functions {
		fn.Source = strings.Replace(fn.Source, from, to, 1)
		for i := range fn.Locations {
			fn.Locations[i].Source = strings.Replace(fn.Locations[i].Source, from, to, 1)
		}
	}
	if err := os.WriteFile(name, notes.Encode(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// moveSet changes the directory in the command and in what is expected of it.
func moveSet(s *testarchive.Run, from, to, program string) {
	for i := range s.Cmd {
		s.Cmd[i] = strings.ReplaceAll(s.Cmd[i], from, to)
	}
	replaceIn(s, from, to)
	replaceIn(s, strings.ReplaceAll(from, "/", "#"), strings.ReplaceAll(to, "/", "#"))
	source := "/" + program + "/branches.c"
	replaceIn(s, md5Hex(from+source), md5Hex(to+source))
}

func replaceIn(s *testarchive.Run, old, new string) {
	s.Stdout = strings.ReplaceAll(s.Stdout, old, new)
	s.Stderr = strings.ReplaceAll(s.Stderr, old, new)
	files := make(map[string]string)
	for name, b := range s.Files {
		files[strings.ReplaceAll(name, old, new)] = strings.ReplaceAll(b, old, new)
	}
	s.Files = files
}

func runFixture(t *testing.T, fx *fixtures.Fixture, set *testarchive.Run) []string {
	var problems []string
	var stdout, stderr bytes.Buffer
	_, version, _ := strings.Cut(set.Cmd[0], "gcov-")
	first, second, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	minor, _ := strconv.Atoi(second)
	rc := Run(&Invocation{Prog: set.Cmd[0], Args: set.Cmd[1:], Version: gcov.MakeVersion(major, minor), Stdout: &stdout, Stderr: &stderr})
	check := func(what, got, want string) {
		if d := fixtures.Difference(got, want); d != "" {
			problems = append(problems, what+" "+d)
		}
	}
	if rc != set.Rc {
		problems = append(problems, "status "+strconv.Itoa(rc)+", want "+strconv.Itoa(set.Rc))
	}
	check("stdout", stdout.String(), set.Stdout)
	if strings.Contains(set.Stderr, "\nUsage:") {
		// The help text is our own.
		check("stderr", firstLine(stderr.String()), firstLine(set.Stderr))
	} else {
		check("stderr", stderr.String(), set.Stderr)
	}
	got := takeOutput(t, fx.Inputs)
	for name, b := range got {
		want, ok := set.Files[name]
		if !ok {
			problems = append(problems, "wrote "+name)
		} else {
			check(name, b, want)
		}
	}
	for name := range set.Files {
		if _, ok := got[name]; !ok {
			problems = append(problems, "did not write "+name)
		}
	}
	return problems
}

// takeOutput returns the files in the working directory that are none of the
// program's, JSON unpacked, and removes them.
func takeOutput(t *testing.T, inputs map[string][]byte) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, e := range entries {
		name := e.Name()
		if _, ok := inputs[name]; ok {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(name)
		if plain, ok := strings.CutSuffix(name, ".gz"); ok {
			name, b = plain, gunzip(t, b)
		}
		out[name] = string(b)
	}
	return out
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	b, err = io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// TestCut lists files that are cut within a record: since GCC 13 gcov notices.
func TestCut(t *testing.T) {
	seen := 0
	for _, fx := range fixtures.All(t, "gcc") {
		_, version, _ := strings.Cut(fx.Compiler, "gcc-")
		major, err := strconv.Atoi(version)
		if fx.Program != "branches" || err != nil {
			continue
		}
		seen++
		for _, ext := range []string{".gcno", ".gcda"} {
			t.Chdir(t.TempDir())
			for name, b := range fx.Inputs {
				if strings.HasSuffix(name, ext) {
					b = b[:len(b)-14] // within the last counters, or lines
				}
				if err := os.WriteFile(name, b, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			rc := Run(&Invocation{Prog: "gcov", Args: []string{"-n", "branches.c"}, Version: gcov.MakeVersion(major, 0), Stdout: &stdout, Stderr: &stderr})
			want := 0
			if major >= 13 {
				want = 4
			}
			if told := strings.Contains(stderr.String(), "branches"+ext+":corrupted\n"); rc != want || told != (want == 4) || stdout.Len() == 0 {
				t.Errorf("gcc-%d, %s cut: status %d, want %d: %s", major, ext, rc, want, stderr.String())
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d compilers", seen)
	}
}
