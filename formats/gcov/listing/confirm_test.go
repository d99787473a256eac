package listing

import (
	"bytes"
	"errors"
	"fmt"
	"footfall/process/needs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

// confirmSets are options that are tried on undamaged programs.
var confirmSets = []string{
	"", "-b", "-b -c", "-a", "-a -b", "-a -b -c -u -w", "-f", "-b -f -m", "-l", "-p", "-l -p", "-x", "-l -x", "-n", "-m",
	"-r", "-u -b", "-t", "-a -b -c -t -m", "-k", "-q", "-k -q -a -b", "-d -n", "-s /usr", "-s /usr -r -p",
	"-j", "-j -b", "-j -b -m -t", "-j -x", "-j -p", "-j -n", "-n -j", "-H", "-b -c -H", "-D -n", "-i -f", "-j -d -r",
}

// confirmBad are command lines for files that are damaged, missing or in
// unusual places, and for options in unusual forms.
var confirmBad = []string{
	"control.gcda control.c", "control.gcda nodata.gcno", "nodata.gcno control.gcda", "-j control control",
	"-j control.gcda nodata.gcda stamp.gcda nosource.gcda", "-b -f control stamp", "-l control obj/unit.o", "-l -p obj/unit.o control",
	"-o obj unit.cc", "-o obj/unit.gcno zzz", "-o obj/unit control.c", "-o obj/ unit", "-j -o obj unit.cc",
	"-l -p ./obj/../obj/unit.o", "-j ./obj/../obj/unit.o", "-l obj//unit.o", "-d control nodata", "-d -j control nodata",
	"nothere control", "newer newer control", "-j newer control", "-t control nodata", "-b nothere nothere", "",
	"-Z", "--bogus control", "--b control", "--branch-p control", "--no control", "-o", "--object-directory", "--object-file=obj unit",
	"--object-d obj unit", "--object obj unit", "-bcn control", "-boobj unit", "--all-blocks=3 control", "control -b", "control -- -b",
	"control -b -- nodata", "@response", "@nothere", "--human -b control", "--stdout control", "-bq control", "- control",
}

// TestConfirm compares Run with the installed gcov of the same version.
func TestConfirm(t *testing.T) {
	for _, version := range []int{11, 12} {
		t.Run(fmt.Sprint("gcov-", version), func(t *testing.T) {
			fixtures.BuildPrograms(t, version)
			for _, set := range confirmSets {
				confirm(t, version, set+" features.cc unit.cc control.c")
				if testing.Short() {
					break
				}
				confirm(t, version, set+" features.gcda")
			}
			for _, name := range damagePrograms(t) {
				confirm(t, version, name)
				confirm(t, version, "-a -b -f -w "+name)
				confirm(t, version, "-t -j -b "+name)
			}
			for _, args := range confirmBad {
				confirm(t, version, args)
			}
		})
	}
}

// TestConfirmOptimized does the same for programs built in other ways.
func TestConfirmOptimized(t *testing.T) {
	if testing.Short() {
		t.Skip("builds many programs")
	}
	for _, version := range []int{11, 12} {
		for _, flags := range []string{"-O2", "-O1 -fprofile-update=atomic", "-O2 -flto", "-O2 -fprofile-abs-path"} {
			t.Run(fmt.Sprint("gcov-", version, " ", flags), func(t *testing.T) {
				fixtures.BuildPrograms(t, version, strings.Fields(flags)...)
				for _, set := range []string{"-b -c -a", "-j -b", "-f -m"} {
					confirm(t, version, set+" features.cc unit.cc control.c")
				}
			})
		}
	}
}

// TestConfirmEmptyName compares with gcov where code is of a source called "", which is
// something else than no source.
func TestConfirmEmptyName(t *testing.T) {
	for _, version := range []int{11, 12} {
		t.Chdir(t.TempDir())
		const source = "int a(int x) { return x + 1; }\n#line 3 \"\"\nint b(int x)\n{\n\tif (x > 100)\n\t\treturn 3;\n\treturn x + 2;\n}\n" +
			"#line 20 \"e.c\"\nint main(int c, char **v) { return a(c) + b(c) != 5; }\n"
		if err := os.WriteFile("e.c", []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		fixtures.Command(t, fmt.Sprint("gcc-", version), "--coverage", "-c", "e.c")
		fixtures.Command(t, fmt.Sprint("gcc-", version), "--coverage", "-o", "p", "e.o")
		fixtures.Command(t, "./p")
		for _, set := range []string{"-b -c", "-a -m -p", "-j -b -t", "-f -l"} {
			confirm(t, version, set+" e.gcno")
		}
		b, err := os.ReadFile("e.gcno")
		if err != nil {
			t.Fatal(err)
		}
		n, err := gcov.ReadNotes(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(n.Encode(), b) {
			t.Errorf("gcov-%d: the notes are not the same when written again", version)
		}
		set, problems, _ := gcov.Collect([]gcov.Object{{Notes: "e.gcno", Data: []string{"e.gcda"}}}, gcov.CollectOptions{})
		if len(problems) > 0 || set.Len() != 2 || filepath.Base(set.At(0).Name) != gcov.Unnamed || len(set.At(0).Lines) != 4 {
			t.Errorf("gcov-%d: %v, %d files", version, problems, set.Len())
		}
	}
}

// TestMacroFunctions collects two functions of C++ that one macro makes at one place: they are
// two, with branches of their own.
func TestMacroFunctions(t *testing.T) {
	t.Chdir(t.TempDir())
	const source = "#define PAIR(n) int get_##n(int x) { return x + 1; } int set_##n(int x) { if (x > 5) return 2; return x; }\n" +
		"PAIR(one)\n#define TEMPLATE template <typename T> T half(T x) { return x / 2; } template <typename T> T none(T x) { return x; }\nTEMPLATE\n" +
		"int (*unused)(int) = none<int>;\nint main() { return get_one(1) + half(1) + half(1L) != 2; }\n"
	if err := os.WriteFile("m.cc", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	fixtures.Command(t, "g++-12", "--coverage", "-c", "m.cc")
	fixtures.Command(t, "g++-12", "--coverage", "-o", "p", "m.o")
	fixtures.Command(t, "./p")
	set, _, _ := gcov.Collect([]gcov.Object{{Notes: "m.gcno", Data: []string{"m.gcda"}}}, gcov.CollectOptions{})
	got := make(map[string][2]int64)
	for _, f := range set.At(0).Functions {
		got[f.Name] = [2]int64{int64(len(f.Instances)), f.Count}
	}
	want := map[string][2]int64{
		"_Z7get_onei": {1, 1}, "_Z7set_onei": {1, 0}, "_Z4halfIiET_S0_": {2, 2}, "_Z4noneIiET_S0_": {1, 0}, "main": {1, 1},
	}
	if !maps.Equal(got, want) {
		t.Errorf("instances and calls: %v, want %v", got, want)
	}
}

// damagePrograms makes damaged copies of the notes and data of control.c, and
// returns their names.
func damagePrograms(t *testing.T) []string {
	t.Helper()
	notes, err := os.ReadFile("control.gcno")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("control.gcda")
	if err != nil {
		t.Fatal(err)
	}
	with := func(b []byte, at int, s string) []byte {
		b = bytes.Clone(b)
		copy(b[at:], s)
		return b
	}
	write := func(name string, b []byte) {
		t.Helper()
		if b == nil {
			return
		}
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	add := func(name string, notes, data []byte) {
		t.Helper()
		names = append(names, name)
		write(name+".gcno", notes)
		write(name+".gcda", data)
	}
	add("nothere", nil, nil)
	add("nodata", notes, nil)
	add("nonotes", nil, data)
	add("badnotes", with(notes, 0, "xxxx"), data)
	add("baddata", notes, with(data, 0, "xxxx"))
	add("stamp", notes, with(data, 8, "abcd"))
	add("empty", []byte{}, data)
	add("emptydata", notes, []byte{})
	add("newer", notes, data)
	if err := os.Chtimes("newer.gcno", time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{13, 40, 100, 101, 300, 333, 600, 900} {
		add(fmt.Sprint("data", n), notes, data[:min(n, len(data))])
	}
	// Where the cut falls into a string, gcov crashes.
	for n := 400; n < len(notes); n += 397 {
		if !cutsString(notes, n) {
			add(fmt.Sprint("notes", n), notes[:n], data)
		}
	}
	for name, text := range map[string]string{
		"nosource": "", "short": "one\ntwo\n", "crlf": "a\r\nb\r\n\r\nc", "nul": "a\x00b\nc\n\x00\nd\n" + strings.Repeat("x", 300) + "\x00y\nz",
	} {
		changed := bytes.ReplaceAll(notes, []byte("control.c\x00"), []byte(fmt.Sprintf("%-9.9s\x00", "z"+name)))
		add(name, changed, data)
		if text != "" {
			source := fmt.Sprintf("%-9.9s", "z"+name)
			write(source, []byte(text))
			if err := os.Chtimes(source, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir("obj", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{".gcno", ".gcda"} {
		b, err := os.ReadFile("unit" + ext)
		if err != nil {
			t.Fatal(err)
		}
		write("obj/unit"+ext, b)
	}
	write("response", []byte("-b  \"control\" \n -f"))
	return names
}

// cutsString tells whether notes that end at n end in the name of a function
// or of its file.
func cutsString(notes []byte, n int) bool {
	_, err := gcov.ReadNotes(notes[:n])
	var format *gcov.FormatError
	if !errors.As(err, &format) {
		return false
	}
	// The record that is cut begins at the offset of the error.
	at := int(format.Offset)
	return at+4 > n || bytes.Equal(notes[at:at+4], []byte{0, 0, 0, 1})
}

var gccVersion = regexp.MustCompile(`"gcc_version": "[^"]*"`)

// confirm runs gcov and Run with the same arguments and compares all that they
// print and write.
func confirm(t *testing.T, version int, args string) {
	t.Helper()
	inputs := make(map[string][]byte)
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		inputs[e.Name()] = nil
	}
	name := fmt.Sprint("gcov-", version)
	if _, err := exec.LookPath(name); err != nil {
		needs.Skip(t, needs.Tools, name)
	}
	var want, got struct{ stdout, stderr bytes.Buffer }
	cmd := exec.Command(name, strings.Fields(args)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = &want.stdout, &want.stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	wantFiles := takeOutput(t, inputs)
	if !cmd.ProcessState.Exited() {
		t.Logf("%s %s crashes: %v", name, args, cmd.ProcessState)
		return
	}
	rc := Run(&Invocation{Prog: name, Args: strings.Fields(args), Version: gcov.MakeVersion(version, 0), Stdout: &got.stdout, Stderr: &got.stderr})
	gotFiles := takeOutput(t, inputs)
	if want := cmd.ProcessState.ExitCode(); rc != want {
		t.Errorf("%s %s: status %d, want %d", name, args, rc, want)
	}
	check := func(what, got, want string) {
		t.Helper()
		// Without notes there is nothing to tell the minor version.
		got, want = gccVersion.ReplaceAllString(got, ""), gccVersion.ReplaceAllString(want, "")
		if d := fixtures.Difference(got, want); d != "" {
			t.Errorf("%s %s: %s %s", name, args, what, d)
		}
	}
	wantErr, gotErr := want.stderr.String(), got.stderr.String()
	if i := strings.Index(wantErr, "Usage:"); i >= 0 {
		// The help text is our own.
		wantErr, gotErr = wantErr[:i], gotErr[:max(0, strings.Index(gotErr, "Usage:"))]
	}
	check("stderr", gotErr, wantErr)
	check("stdout", got.stdout.String(), want.stdout.String())
	for name, b := range wantFiles {
		if _, ok := gotFiles[name]; !ok {
			t.Errorf("%s: did not write %s", args, name)
			continue
		}
		check(name, gotFiles[name], b)
	}
	for name := range gotFiles {
		if _, ok := wantFiles[name]; !ok {
			t.Errorf("%s: wrote %s", args, name)
		}
	}
}
