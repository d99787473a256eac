//go:build linux

package compile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// objects compiles two objects to dir.
func objects(t *testing.T, dir string, flags ...string) {
	t.Helper()
	for name, text := range map[string]string{
		"one.c":                         "int one(void) { return 1; } static int mine(void) { return 2; } int (*p)(void) = mine; extern int q; int *r = &q;",
		"a_name_of_many_characters_2.c": "__attribute__((weak)) int two(void) { return 2; }",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		runIn(t, dir, "gcc-12", append([]string{"-c", name}, flags...)...)
	}
}

func runIn(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

func TestArchive(t *testing.T) {
	for _, flags := range []string{"-m64", "-m32"} {
		dir := t.TempDir()
		objects(t, dir, flags, "-fno-pie")
		runIn(t, dir, "ar", "rc", "lib.a", "one.o", "a_name_of_many_characters_2.o")
		runIn(t, dir, "ar", "rcT", "thin.a", "one.o", "a_name_of_many_characters_2.o")
		index := runIn(t, dir, "nm", "-s", "lib.a")
		for _, name := range []string{"lib.a", "thin.a"} {
			members, err := readArchive(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, m := range members {
				names = append(names, m.name)
			}
			if want := []string{"one.o", "a_name_of_many_characters_2.o"}; !slices.Equal(names, want) {
				t.Errorf("%s has %q, want %q", name, names, want)
			}
			if got, want := definitions(members[0].data), []string{"one", "p", "r"}; !slices.Equal(got, want) {
				t.Errorf("%s defines %q, want %q", name, got, want)
			}
			// What is written has what ar wrote, index and all.
			var b bytes.Buffer
			if err := writeArchive(&b, members); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ours.a"), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := runIn(t, dir, "nm", "-s", "ours.a"); got != strings.ReplaceAll(index, "lib.a", "ours.a") {
				t.Errorf("from %s, nm -s says\n%s\nof ar's\n%s", name, got, index)
			}
		}
	}
}

func FuzzArchive(f *testing.F) {
	long := "name/                                           "
	f.Add([]byte(archiveMagic + long + "4         " + memberEnd + "abcd"))
	f.Add([]byte(archiveMagic + "//" + long[:46] + "6         " + memberEnd + "x.o/\n\n" + "/0" + long[:46] + "0         " + memberEnd))
	f.Add([]byte(archiveMagic + "#1/4 " + long[:43] + "6         " + memberEnd + "x.o\x00ab"))
	f.Fuzz(func(t *testing.T, b []byte) {
		members, err := readMembers(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, m := range members {
			if m.data != nil {
				definitions(m.data)
			}
		}
	})
}

func FuzzDefinitions(f *testing.F) {
	dir := f.TempDir()
	source := filepath.Join(dir, "x.s")
	if err := os.WriteFile(source, []byte("\t.globl f\nf:\tret\n"), 0o644); err != nil {
		f.Fatal(err)
	}
	for _, flag := range []string{"--64", "--32"} {
		object := filepath.Join(dir, "x.o")
		if out, err := exec.Command("as", flag, source, "-o", object).CombinedOutput(); err != nil {
			f.Fatalf("%v: %s", err, out)
		}
		b, err := os.ReadFile(object)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { definitions(bytes.NewReader(b)) })
}
