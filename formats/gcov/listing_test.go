package gcov

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFixtures compares what Run prints and writes with what the gcov of each
// compiler did, for all programs and sets of options.
func TestFixtures(t *testing.T) {
	for _, archive := range []string{"gcc", "old", "paths"} {
		t.Run(archive, func(t *testing.T) { testFixtures(t, fixtures(t, archive)) })
	}
}

func testFixtures(t *testing.T, list []*fixture) {
	home := "/src/modern" // where the fixtures were made
	for _, fx := range list {
		t.Chdir(fx.dir)
		place := filepath.Dir(filepath.Dir(fx.dir))
		for name, b := range fx.inputs {
			// Sources are found by the absolute name in the notes of these.
			if strings.HasSuffix(fx.program, "-abs") && strings.HasSuffix(name, ".gcno") {
				moveSources(t, name, b, home, place)
			}
		}
		for _, set := range fx.sets {
			// Any version of the compiler may have made the fixtures.
			if strings.HasPrefix(fx.compiler, "gcc-10") {
				set.replace(`"gcc_version": "10.2.1 20210110"`, `"gcc_version": "10.2.0"`)
			}
			if strings.HasSuffix(fx.program, "-abs") {
				set.move(home, place, fx.compiler+"/"+fx.program)
			}
			for _, problem := range runFixture(t, fx, set) {
				t.Errorf("%s/%s: %s: %s: %s", fx.compiler, fx.program, set.name, strings.Join(set.cmd, " "), problem)
			}
		}
	}
	t.Chdir(t.TempDir())
}

// moveSources changes the directory of all sources that notes name.
func moveSources(t *testing.T, name string, b []byte, from, to string) {
	t.Helper()
	notes, err := ReadNotes(b)
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

// move changes the directory in the command and in what is expected of it.
func (s *fixtureSet) move(from, to, program string) {
	for i := range s.cmd {
		s.cmd[i] = strings.ReplaceAll(s.cmd[i], from, to)
	}
	s.replace(from, to)
	s.replace(strings.ReplaceAll(from, "/", "#"), strings.ReplaceAll(to, "/", "#"))
	source := "/" + program + "/branches.c"
	s.replace(md5Hex(from+source), md5Hex(to+source))
}

func (s *fixtureSet) replace(old, new string) {
	s.stdout = strings.ReplaceAll(s.stdout, old, new)
	s.stderr = strings.ReplaceAll(s.stderr, old, new)
	files := make(map[string]string)
	for name, b := range s.files {
		files[strings.ReplaceAll(name, old, new)] = strings.ReplaceAll(b, old, new)
	}
	s.files = files
}

func runFixture(t *testing.T, fx *fixture, set *fixtureSet) []string {
	var problems []string
	var stdout, stderr bytes.Buffer
	_, version, _ := strings.Cut(set.cmd[0], "gcov-")
	first, second, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	minor, _ := strconv.Atoi(second)
	rc := Run(&Invocation{Prog: set.cmd[0], Args: set.cmd[1:], Version: MakeVersion(major, minor), Stdout: &stdout, Stderr: &stderr})
	check := func(what, got, want string) {
		if d := firstDifference(got, want); d != "" {
			problems = append(problems, what+" "+d)
		}
	}
	if rc != set.rc {
		problems = append(problems, "status "+strconv.Itoa(rc)+", want "+strconv.Itoa(set.rc))
	}
	check("stdout", stdout.String(), set.stdout)
	if strings.Contains(set.stderr, "\nUsage:") {
		// The help text is our own.
		check("stderr", firstLine(stderr.String()), firstLine(set.stderr))
	} else {
		check("stderr", stderr.String(), set.stderr)
	}
	got := takeOutput(t, fx.inputs)
	for name, b := range got {
		want, ok := set.files[name]
		if !ok {
			problems = append(problems, "wrote "+name)
		} else {
			check(name, b, want)
		}
	}
	for name := range set.files {
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

// firstDifference describes where two texts differ, "" when they are equal.
func firstDifference(got, want string) string {
	if got == want {
		return ""
	}
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := 0; ; i++ {
		switch {
		case i == len(g):
			return "ends where this is expected: " + clip(w[i])
		case i == len(w):
			return "has more than expected: " + clip(g[i])
		case g[i] != w[i]:
			n := 0
			for n < len(g[i]) && n < len(w[i]) && g[i][n] == w[i][n] {
				n++
			}
			n = max(0, n-60)
			return "\n got  " + clip(g[i][n:]) + "\n want " + clip(w[i][n:])
		}
	}
}

func clip(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return strings.TrimSuffix(s, "\n")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// TestCut lists files that are cut within a record: since GCC 13 gcov notices.
func TestCut(t *testing.T) {
	seen := 0
	for _, fx := range fixtures(t, "gcc") {
		_, version, _ := strings.Cut(fx.compiler, "gcc-")
		major, err := strconv.Atoi(version)
		if fx.program != "branches" || err != nil {
			continue
		}
		seen++
		for _, ext := range []string{".gcno", ".gcda"} {
			t.Chdir(t.TempDir())
			for name, b := range fx.inputs {
				if strings.HasSuffix(name, ext) {
					b = b[:len(b)-14] // within the last counters, or lines
				}
				if err := os.WriteFile(name, b, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			rc := Run(&Invocation{Prog: "gcov", Args: []string{"-n", "branches.c"}, Version: MakeVersion(major, 0), Stdout: &stdout, Stderr: &stderr})
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
