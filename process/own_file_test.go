//go:build linux

package process

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// residentFile is what this process has in memory of files, in kB.
func residentFile(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(b), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(value)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReleaseOwnFile lets go of the program that runs: it has less in memory, and runs on.
func TestReleaseOwnFile(t *testing.T) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := unchangedParts(text, path)
	if err != nil || !slices.ContainsFunc(parts, func(m Mapping) bool { return m.Exec }) {
		t.Fatalf("there is no code among %+v, %v", parts, err)
	}
	self, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	read := func() (all [][]byte) { // and so has it in memory
		for _, m := range parts {
			b := make([]byte, m.End-m.Start)
			if _, err := self.ReadAt(b, int64(m.Start)); err != nil {
				t.Fatal(err)
			}
			all = append(all, b)
		}
		return all
	}
	before := read()
	resident := residentFile(t)
	if err := ReleaseOwnFile(); err != nil {
		t.Fatal(err)
	}
	const least = 1 << 10 // kB; the code that runs now is in memory again
	if now := residentFile(t); now > resident-least {
		t.Errorf("%d kB of %d kB stay", now, resident)
	}
	for i, b := range read() {
		if string(b) != string(before[i]) {
			t.Errorf("%+v is not what it was", parts[i])
		}
	}
}

// TestUnchangedParts tells apart what of a program's file is as the file has it.
func TestUnchangedParts(t *testing.T) {
	const text = `00400000-00401000 r--p 00000000 fe:01 1234   /usr/bin/footfall
Rss:                   4 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
00401000-01331000 r-xp 00001000 fe:01 1234   /usr/bin/footfall (deleted)
Rss:               14000 kB
Anonymous:             4 kB
01331000-01400000 r-xp 00f31000 fe:01 1234   /usr/bin/footfall (deleted)
Rss:               14000 kB
Anonymous:             0 kB
01400000-01500000 rw-p 01000000 fe:01 1234   /usr/bin/footfall
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:01 99 /usr/lib/x.so
Anonymous:             0 kB
7f0000002000-7f0000003000 rw-p 00000000 00:00 0
Anonymous:             0 kB
`
	parts, err := unchangedParts([]byte(text), "/usr/bin/footfall")
	if err != nil {
		t.Fatal(err)
	}
	var starts []uint64
	for _, m := range parts {
		starts = append(starts, m.Start)
	}
	if want := []uint64{0x400000, 0x1331000}; !slices.Equal(starts, want) {
		t.Errorf("%#x, want %#x", starts, want)
	}
	if _, err := unchangedParts([]byte("not a map at all\n"), "/usr/bin/footfall"); err == nil {
		t.Error("text that is no map is read")
	}
}
