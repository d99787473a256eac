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
		case Update(old&15) == Locked && Update(now&15) == Thread && old>>4 == now>>4:
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
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	if out, err := exec.Command("as", source, "-o", object).CombinedOutput(); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(object)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { Unlock(b) })
}
