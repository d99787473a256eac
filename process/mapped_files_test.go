//go:build linux

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMappedFilesKey maps a file: that is seen, but where only code counts not before it can be executed; what is no file is not.
func TestMappedFilesKey(t *testing.T) {
	p := ourselves(t)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, os.Getpagesize()), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys := func() (all, code []byte) {
		all, err := p.MappedFilesKey(false)
		if err != nil || len(all) == 0 {
			t.Fatal(len(all), err)
		}
		code, err = p.MappedFilesKey(true)
		if err != nil || len(code) == 0 || len(code) >= len(all) {
			t.Fatal(len(code), len(all), err)
		}
		return all, code
	}
	for _, c := range []struct {
		fd, access int
		is, isCode bool
	}{{int(f.Fd()), unix.PROT_READ, true, false}, {int(f.Fd()), unix.PROT_READ | unix.PROT_EXEC, true, true}, {-1, unix.PROT_READ | unix.PROT_EXEC, false, false}} {
		allBefore, codeBefore := keys()
		flags := unix.MAP_PRIVATE
		if c.fd < 0 {
			flags |= unix.MAP_ANON
		}
		memory, err := unix.Mmap(c.fd, 0, os.Getpagesize(), c.access, flags)
		if err != nil {
			t.Fatal(err)
		}
		all, code := keys()
		if bytes.Equal(all, allBefore) == c.is || bytes.Equal(code, codeBefore) == c.isCode {
			t.Errorf("%+v: all the same %t, code the same %t", c, bytes.Equal(all, allBefore), bytes.Equal(code, codeBefore))
		}
		if err := unix.Munmap(memory); err != nil {
			t.Fatal(err)
		}
		if all, code := keys(); !bytes.Equal(all, allBefore) || !bytes.Equal(code, codeBefore) {
			t.Errorf("%+v: not what it was when it is gone", c)
		}
	}
}

// TestMappedFilesIn is the same for a kernel that tells of all as text only.
func TestMappedFilesIn(t *testing.T) {
	const data, code = "1000-2000 r--p 00000000 fe:00 7  /a\n", "2000-3000 r-xp 00001000 fe:00 7  /a\n"
	const text = data + code + "3000-4000 rw-p 00000000 00:00 0\n4000-5000 r-xp 00000000 00:00 0  [vdso]\n"
	if got := string(mappedFilesIn([]byte(text), false)); got != data+code {
		t.Errorf("all: %q", got)
	}
	if got := string(mappedFilesIn([]byte(text), true)); got != code {
		t.Errorf("code: %q", got)
	}
}
