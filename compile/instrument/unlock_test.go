//go:build linux

package instrument

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestUnlock has a program count in its threads' own counters: each prefix that was there is
// another one, and nothing else changes but the functions' mode.
func TestUnlock(t *testing.T) {
	dir := t.TempDir()
	b := build{compiler: "gcc-12", flags: "-O1", cpu: "amd64", update: Locked}
	program := filepath.Join(dir, "prog")
	link(t, b, dir, threaded, program, "-pthread")
	before, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	after := bytes.Clone(before)
	n := Unlock(after)
	prefixes, addressed, modes := 0, 0, 0
	for i, old := range before {
		switch now := after[i]; {
		case old == now:
		case old == lockPrefix && now == gsPrefix && after[i+1]&^1 == 0x48 && after[i+2] == 0xff:
			prefixes++
			if after[i+1] == 0x49 {
				addressed++
			}
		case ProfileUpdate(old&15) == Locked && ProfileUpdate(now&15) == Thread && old>>4 == now>>4:
			modes++
		default:
			t.Errorf("offset %#x: %#x became %#x", i, old, now)
		}
	}
	// Five functions; calls; two of the function for indirect calls.
	if prefixes != n || prefixes-addressed != bytes.Count(before, lockedIncrement)+2 || addressed != bytes.Count(before, lockedAddressed) || addressed == 0 || modes != 5 || n < 5+8+2 {
		t.Errorf("%d changes, %d prefixes, %d of them with the address in r11, of %d functions", n, prefixes, addressed, modes)
	}
	if n := Unlock(after); n != 0 {
		t.Errorf("the second time: %d changes", n)
	}
	for _, section := range []string{threadsSection, tableSection} {
		other := bytes.Replace(before, []byte("\x00"+section+"\x00"), []byte("\x00x"+section[1:]+"\x00"), 1)
		if n := Unlock(other); n != 0 && section == threadsSection || n > 2 {
			t.Errorf("without %s: %d changes", section, n)
		}
	}
}

func FuzzUnlock(f *testing.F) {
	dir := f.TempDir()
	source, object := filepath.Join(dir, "x.s"), filepath.Join(dir, "x.o")
	text := "\t.text\n1:\tlock incq 2f(%rip)\n\tlock incq 3f(%rip)\n" +
		"\t.section footfall_threads,\"a\"\n\t.long 4,0\n\t.section footfall_locks,\"a\"\n\t.long 16\n" +
		"\t.section footfall_table,\"a\"\n\t.long 60,4,8,4,0,16,0,0,1,0,0,0,1,16,0\n\t.section footfall_counts,\"aw\",@nobits\n2:\t.zero 8\n3:\t.zero 8\n"
	alone := "\t.text\nf:\tpushl %eax\n\tcall 1f\n1:\tpopl %eax\n\tlock addl $1,2f-1b(%eax)\n\tlock adcl $0,2f+4-1b(%eax)\n\tpopl %eax\n3:\tlock addl $1,8(%edx)\n" +
		"\t.section footfall_locks,\"a\"\n\t.long 24\n\t.section footfall_table,\"a\"\n\t.long 60,4,8,-12,0,32,0,0,1,0,0,0,0,24,0\n\t.section footfall_counts,\"aw\",@nobits\n2:\t.zero 8\n"
	for _, c := range [][2]string{{"--64", text}, {"--32", alone}} {
		if err := os.WriteFile(source, []byte(c[1]), 0o600); err != nil {
			f.Fatal(err)
		}
		if out, err := exec.Command("as", c[0], source, "-o", object).CombinedOutput(); err != nil {
			f.Fatalf("%v: %s", err, out)
		}
		b, err := os.ReadFile(object)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { Unlock(b) })
}

// TestUnlockAlone has programs for 386 count without lock if it is sure that they have one thread.
func TestUnlockAlone(t *testing.T) {
	const (
		calls = `#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int f(int n) { return n + 1; }
__attribute__((noinline)) int g(int n) { return f(n) * 2; }
int (*volatile pointers[6])(int) = {f, g, abs, f, g, abs};
int other(int);
int main(void)
{
	int i, n = 0;
	for (i = 0; i < 1000; i++)
		n += pointers[i % 6](i) + g(i);
	return other(n) == 3;
}
`
		alone = calls + "int other(int n) { return n; }\n"
	)
	program := func(t *testing.T, source, flags string, rest ...string) (dir, file string) {
		dir = t.TempDir()
		b := build{compiler: "gcc-12", flags: "-m32 -O1 " + flags, cpu: "386", update: Locked}
		file = filepath.Join(dir, "prog")
		link(t, b, dir, source, file, rest...)
		return dir, file
	}
	for _, flags := range []string{"", "-no-pie -fno-pie", "-static -s", "-s", "-fPIC -fcf-protection"} {
		t.Run(flags, func(t *testing.T) {
			dir, file := program(t, alone, flags)
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			after := bytes.Clone(before)
			n := Unlock(after)
			if flags == "-static -s" {
				if n != 0 {
					t.Errorf("%d changes of a static program without symbols", n)
				}
				return
			}
			increments, left := bytes.Count(before, aloneIncrement[:aloneBase+1]), bytes.Count(after, aloneIncrement[:aloneFirst+2])
			if n != increments+2 || n < 8 || left != 0 {
				t.Errorf("%d changes for %d increments and 2, %d have locks", n, increments, left)
			}
			if n := Unlock(bytes.Clone(after)); n != 0 {
				t.Errorf("the second time: %d changes", n)
			}
			if err := os.WriteFile(file, after, 0o700); err != nil {
				t.Fatal(err)
			}
			run(t, dir, nil, file)
			c := readCounts(t, countsFiles(t, dir)[0])
			if f, g := callsOf(c, "f"), callsOf(c, "g"); f != 1000+334+333 || g != 1000+333 {
				t.Errorf("f %d, g %d calls; want 1667 and 1333", f, g)
			}
			for _, f := range c.Images[0].Functions {
				if f.Update != Single {
					t.Errorf("%s counts by %v", f.Name, f.Update)
				}
			}
			checkArcs(t, c, true)
		})
	}
	for what, make := range map[string]func(t *testing.T) string{
		"threads": func(t *testing.T) string {
			_, file := program(t, "#include <pthread.h>\n"+alone+"void *start(pthread_t *t) { pthread_create(t, 0, (void *(*)(void *))start, t); return 0; }\n", "-pthread")
			return file
		},
		"a library": func(t *testing.T) string {
			dir := t.TempDir()
			library := filepath.Join(dir, "libother.so")
			source := filepath.Join(dir, "other.c")
			if err := os.WriteFile(source, []byte("int other(int n) { return n; }\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			command(t, dir, "gcc-12", "-m32", "-shared", "-fPIC", source, "-o", library)
			_, file := program(t, calls, "", library)
			return file
		},
		"dlopen": func(t *testing.T) string {
			_, file := program(t, "#include <dlfcn.h>\n"+calls+"int other(int n) { return dlopen(\"libother.so\", RTLD_NOW) != 0; }\n", "")
			return file
		},
	} {
		t.Run(what, func(t *testing.T) {
			b, err := os.ReadFile(make(t))
			if err != nil {
				t.Fatal(err)
			}
			if n := Unlock(b); n != 0 {
				t.Errorf("%d changes", n)
			}
		})
	}
}
