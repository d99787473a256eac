package units

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/fleet/store"
	"footfall/input"
)

// TestText has a text come back as it was, and refuses what is none.
func TestText(t *testing.T) {
	want := []byte("int x;\r\n/* caf\xe9 */\n")
	u, err := OfText("../../etc/passwd", want) // a name, and no more
	if err != nil {
		t.Fatal(err)
	}
	if got, err := TextOf(&u); err != nil || !bytes.Equal(got, want) || Check(&u) != nil {
		t.Errorf("%q, %v", got, err)
	}
	large := store.Unit{Kind: store.Text, Name: "a.c", Program: append([]byte{version}, make([]byte, MostText+1)...)}
	for name, u := range map[string]store.Unit{
		"NUL":        {Kind: store.Text, Name: "a.c", Program: []byte{version, 'a', 0}},
		"version":    {Kind: store.Text, Name: "a.c", Program: []byte{version + 1, 'a'}},
		"nothing":    {Kind: store.Text, Name: "a.c"},
		"counters":   {Kind: store.Text, Name: "a.c", Counters: 1, Program: []byte{version}},
		"no name":    {Kind: store.Text, Program: []byte{version}},
		"large":      large,
		"other kind": {Kind: "texts", Name: "a.c", Program: []byte{version}},
	} {
		if err := Check(&u); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// TestTexts reads what is below the root, each once, and no more than there may be.
func TestTexts(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err == nil {
			err = os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write("a.c", "a\n")
	write("src/b.c", "b\n")
	write("program", "\x7fELF\x00")
	write("large.c", strings.Repeat("x", MostText+1))
	write("../secret", "secret\n")
	if err := os.Symlink("../secret", filepath.Join(root, "link.c")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("src/b.c", filepath.Join(root, "inner.c")); err != nil {
		t.Fatal(err)
	}
	texts := NewTexts(root, new(input.Owners))
	var got []string
	read := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := texts.Note(&store.Unit{Kind: Lines, Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if err := texts.Read([]string{""}, func(hash store.Hash, u store.Unit) error {
			text, err := TextOf(&u)
			got = append(got, u.Name+" "+string(text))
			if hash != u.Hash() || err != nil {
				t.Errorf("%s: %v", u.Name, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	read("src/b.c", "a.c", "a.c", "../secret", filepath.Join(dir, "secret"), "link.c", "gone.c", "program", "large.c")
	read("a.c", "inner.c")
	if diff := cmp.Diff([]string{"a.c a\n", "src/b.c b\n", "inner.c b\n"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left, why := texts.Left(); left != 4 || !strings.HasPrefix(why.Error(), "gone.c: no such file") {
		t.Errorf("%d, %v", left, why)
	}
	if n := len(texts.Hashes()); n != 3 {
		t.Errorf("%d hashes", n)
	}
	many := NewTexts(root, new(input.Owners))
	write("full.c", strings.Repeat("y", MostText))
	for i := range MostTexts/MostText + 2 {
		name := strings.Repeat("./", i) + "full.c" // as if there were many
		many.read[name] = false
	}
	if err := many.Read([]string{""}, func(store.Hash, store.Unit) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if left, why := many.Left(); left < 2 || many.size > MostTexts+1<<10 {
		t.Errorf("%d bytes, %d left: %v", many.size, left, why)
	}
}

// checkNamed holds the names of a unit's sources against those of its functions.
func checkNamed(t *testing.T, title string, u *store.Unit, list []CountedFunction) {
	t.Helper()
	named := make(map[string]bool)
	if err := Sources(u, func(name string) { named[name] = true }); err != nil {
		t.Fatalf("%s: %v", title, err)
	}
	for _, fn := range list {
		if !named[fn.File] {
			t.Errorf("%s: %s is not one of %v", title, fn.File, named)
		}
	}
}

// FuzzText reads units of anybody.
func FuzzText(f *testing.F) {
	f.Add("a.c", []byte("\x01text"))
	f.Fuzz(func(t *testing.T, name string, program []byte) {
		u := store.Unit{Kind: store.Text, Name: name, Program: program}
		text, err := TextOf(&u)
		if (err == nil) != (Check(&u) == nil) {
			t.Fatal(err)
		}
		if err == nil {
			if again, err := OfText(name, text); err != nil || again.Hash() != u.Hash() {
				t.Errorf("it became another: %v", err)
			}
		}
		for _, kind := range []string{Notes, Mapping, GoPackage, Lines} {
			u.Kind = kind
			_ = Sources(&u, func(string) {})
		}
	})
}
