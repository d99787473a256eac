package profile

import (
	"fmt"
	"footfall/demangle"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// framesOf returns what an image tells of the first line 9 of inline.cc.
func framesOf(t *testing.T, i *image) string {
	t.Helper()
	for _, fn := range i.functions {
		if !strings.HasPrefix(demangle.Short(fn.Name), "shop::Shop::serve") {
			continue
		}
		for addr := fn.Addr; addr < fn.Addr+fn.Size; addr++ {
			frames := i.frames(addr)
			if frames[0].line != 9 && i.lines != nil {
				continue
			}
			var s []string
			for _, f := range frames {
				s = append(s, fmt.Sprintf("%s %s:%d from %d", demangle.Short(f.name), filepath.Base(f.file), f.line, f.functionKey.line))
			}
			return strings.ReplaceAll(strings.Join(s, ", "), " [clone .constprop.0]", "")
		}
	}
	return "no code of line 9"
}

const (
	inlineFrames = "shop::Box<unsigned long>::fill inline.cc:9 from 6, shop::wrap inline.cc:15 from 13, shop::Shop::serve inline.cc:24 from 22"
	plainFrame   = "shop::Shop::serve :0 from 0"
)

func TestLinesAndInlinedFunctions(t *testing.T) {
	for _, compiler := range []string{"g++-12 -O2 -g", "g++-11 -O2 -g -gdwarf-4", "g++-12 -O1 -g -m32", "clang++-16 -O2 -g", "clang++-19 -O1 -g -no-pie", "g++-12 -O2 -g -gz", "g++-12 -O2 -g -flto"} {
		args := strings.Fields(compiler)
		i, err := openImage(build(t, args[0], append(args[1:], "testdata/inline.cc")...))
		if err != nil {
			t.Fatal(err)
		}
		if got := framesOf(t, i); got != inlineFrames {
			t.Errorf("%s: %s", compiler, got)
		}
		i.close()
	}
}

// TestSeparateDebugFiles takes names and lines out of programs, to where
// distributions put them.
func TestSeparateDebugFiles(t *testing.T) {
	whole := build(t, "g++-12", "-O2", "-g", "-Wl,--build-id", "testdata/inline.cc")
	other := build(t, "g++-12", "-O1", "-g", "-Wl,--build-id", "testdata/inline.cc")
	dir := t.TempDir()
	debug := filepath.Join(dir, "program.debug")
	run(t, "objcopy", "--only-keep-debug", whole, debug)
	stripped := filepath.Join(dir, "stripped")
	run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, whole, stripped)
	check := func(what, want string) {
		t.Helper()
		i, err := openImage(stripped)
		if err != nil {
			t.Fatal(err)
		}
		defer i.close()
		got := "no names"
		if !i.stripped {
			got = framesOf(t, i)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", what, got)
		}
	}
	check("beside the program", inlineFrames)
	if err := os.Mkdir(filepath.Join(dir, ".debug"), 0o777); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(dir, ".debug", "program.debug")
	if err := os.Rename(debug, below); err != nil {
		t.Fatal(err)
	}
	check("in .debug", inlineFrames)
	run(t, "objcopy", "--only-keep-debug", other, below)
	check("of another build", "no names")
	run(t, "strip", "--strip-debug", whole)
	stripped = whole
	check("without lines", plainFrame[:len("shop::Shop::serve ")])
}
