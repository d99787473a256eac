//go:build linux

package instrument

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestArcsByName has what names alone do not tell: whom a weak alias calls when another unit
// has replaced it, static functions that others know by an alias,
// static functions of one name in sources of one name, and replacements that do not count. Such are C libraries.
func TestArcsByName(t *testing.T) {
	b := build{compiler: "gcc-12", flags: "-O1", cpu: "amd64"}
	dir := t.TempDir()
	assembly := filepath.Join(dir, "elsewhere.s")
	if err := os.WriteFile(assembly, []byte("\t.globl elsewhere\n\t.section .note.GNU-stack\n\t.text\nelsewhere: ret\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	words := append([]string{b.compiler, assembly}, b.words()...)
	for name, text := range map[string]string{
		"a/unit.c": `static void nothing(void) {}
void replaced(void) __attribute__((weak, alias("nothing")));
void kept(void) __attribute__((weak, alias("nothing")));
__attribute__((weak, noinline)) void weak(void) { __asm__(""); }
__attribute__((noinline)) static void helper(int n) { __asm__ volatile("" :: "r"(n)); }
void public(int) __attribute__((alias("helper")));
void elsewhere(void) __attribute__((weak, alias("nothing2")));
static void nothing2(void) {}
void first(void) { replaced(); replaced(); elsewhere(); kept(); weak(); helper(1); public(2); }
`,
		"b/unit.c": `__attribute__((noinline)) static void helper(int n) { __asm__ volatile("" :: "r"(n)); }
void second(void) { for (int i = 0; i < 7; i++) helper(i); }
`,
		"main.c": `void replaced(void) { __asm__ volatile(""); }
void weak(void) { __asm__ volatile(""); }
void first(void); void second(void); void public(int); void kept(void);
int main(void) { first(); second(); public(3); kept(); kept(); return 0; }
`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		words = append(words, b.object(t, filepath.Dir(file), file, true))
	}
	program := filepath.Join(dir, "prog")
	command(t, dir, append(words, b.runtimeObject(t, dir), "-o", program)...)
	run(t, dir, []string{"FOOTFALL_OUT=" + program + ".counts", "FOOTFALL_STATS=" + dir + "/stats"}, program)

	c := readCounts(t, program+".counts")
	calls, got := make(map[*CountedFunction]uint64), make(map[string]uint64)
	for _, a := range c.Arcs() {
		if a.Callee == nil {
			a.Callee = &CountedFunction{Name: a.Name + "?"} // that does not count
		}
		calls[a.Callee] += a.Count
		got[a.Caller.Name+">"+a.Callee.Name] += a.Count
	}
	want := map[string]uint64{"main>first": 1, "main>second": 1, "main>helper": 1, "main>nothing": 2,
		"first>replaced": 2, "first>nothing": 1, "first>weak": 1, "first>elsewhere?": 1, "first>helper": 2, "second>helper": 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, im := range c.Images {
		for _, f := range im.Functions {
			if f.Name != "main" && calls[f] != f.Calls {
				t.Errorf("%s: %d entries, but %d calls", f.Name, f.Calls, calls[f])
			}
		}
	}
	stats, err := os.ReadFile(filepath.Join(dir, "stats"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  first 2\n", "  second 7\n", "  first 2, main 1\n", "  main 2, first 1\n"} {
		if !strings.Contains(string(stats), want) {
			t.Errorf("no callers %q in stats:\n%s", want, stats)
		}
	}
}
