//go:build linux

package input

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"footfall/process/needs"
)

// A servedFile is a file of a file system of user space. While the file system is
// silent it answers nobody.
type servedFile struct {
	fusefs.Inode
	server *fileServer
}

type fileServer struct {
	silent atomic.Bool
	asked  atomic.Int64  // how often a file was opened
	end    chan struct{} // closed: all are answered
}

func (s *fileServer) answer() {
	if s.silent.Load() {
		<-s.end
	}
}

var (
	servedText = []byte("text\n")
	servedTime = time.Unix(1e9, 5000)
)

func (f *servedFile) Getattr(_ context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Uid, out.Gid = 0o644, uint64(len(servedText)), 4711, 4712
	out.SetTimes(nil, &servedTime, nil)
	return 0
}

func (f *servedFile) Open(context.Context, uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	f.server.asked.Add(1)
	f.server.answer()
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (f *servedFile) Read(_ context.Context, _ fusefs.FileHandle, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	f.server.answer()
	rest := servedText[min(at, int64(len(servedText))):]
	return fuse.ReadResultData(rest[:min(len(b), len(rest))]), 0
}

// serve mounts a file system with the files a and b.
func serve(t *testing.T) (dir string, s *fileServer) {
	t.Helper()
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "who mounts without a helper")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		needs.Skip(t, needs.FUSE, err)
	}
	dir, s = t.TempDir(), &fileServer{end: make(chan struct{})}
	root := new(fusefs.Inode)
	server, err := fusefs.Mount(dir, root, &fusefs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true},
		OnAdd: func(ctx context.Context) {
			for _, name := range []string{"a", "b"} {
				root.AddChild(name, root.NewPersistentInode(ctx, &servedFile{server: s}, fusefs.StableAttr{Mode: syscall.S_IFREG}), false)
			}
		},
	})
	if err != nil {
		needs.Skip(t, needs.FUSE, err)
	}
	looked, found, quiet, before := served.looked, served.found, served.quiet, patience
	served.looked, served.quiet = time.Time{}, nil
	t.Cleanup(func() {
		close(s.end)
		served.looked, served.found, served.quiet, patience = looked, found, quiet, before
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return dir, s
}

// TestCopies: what is opened on a file system of user space is a copy, which is
// there also when nobody answers any more.
func TestCopies(t *testing.T) {
	dir, s := serve(t)
	f, err := Open(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patience = 50 * time.Millisecond
	s.silent.Store(true)
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if info.Size() != int64(len(servedText)) || !info.ModTime().Equal(servedTime) || st.Uid != 4711 || st.Gid != 4712 {
		t.Errorf("%d bytes of %v, of %d:%d", info.Size(), info.ModTime(), st.Uid, st.Gid)
	}
	if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, servedText) {
		t.Errorf("%q, %v", b, err)
	}
	at := make([]byte, 2)
	if _, err := f.ReadAt(at, 2); err != nil || string(at) != "xt" {
		t.Errorf("at 2: %q, %v", at, err)
	}
}

// TestCopyIsLimited: a copy has no more bytes than --max-input.
func TestCopyIsLimited(t *testing.T) {
	dir, _ := serve(t)
	defer SetMost(Most())
	SetMost(int64(len(servedText)) - 1)
	var large *TooLargeError
	if f, err := Open(filepath.Join(dir, "a")); !errors.As(err, &large) {
		t.Errorf("%v, %v", f, err)
	}
	SetMost(int64(len(servedText)))
	if b, err := ReadFile(filepath.Join(dir, "a"), MostSource); err != nil || !bytes.Equal(b, servedText) {
		t.Errorf("%q, %v", b, err)
	}
}

// TestMinuteOfSilence: where nobody has answered, nobody is asked for a minute.
func TestMinuteOfSilence(t *testing.T) {
	dir, s := serve(t)
	patience = 50 * time.Millisecond
	s.silent.Store(true)
	open := func(name string, want error) {
		t.Helper()
		f, err := Open(filepath.Join(dir, name))
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	open("a", ErrNoAnswer)
	asked := s.asked.Load()
	s.silent.Store(false)
	open("b", ErrNoAnswer)
	if now := s.asked.Load(); now != asked {
		t.Errorf("asked %d times, then %d", asked, now)
	}
	served.mu.Lock()
	for dir := range served.quiet {
		served.quiet[dir] = time.Now().Add(-61 * time.Second)
	}
	served.mu.Unlock()
	patience = time.Minute
	open("b", nil)
}

// TestReadInto reads files of all kinds, also where some file system is one for
// which a process answers.
func TestReadInto(t *testing.T) {
	looked, found := served.looked, served.found
	defer func() { served.looked, served.found = looked, found }()
	dir := t.TempDir()
	name, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	text := bytes.Repeat([]byte("0123456789"), 100)
	changed := time.Unix(1e9, 0)
	if err := errors.Join(os.WriteFile(name, text, 0o666), os.Chtimes(name, changed, changed), syscall.Mkfifo(pipe, 0o666)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	for _, served.found = range []bool{false, true} {
		served.looked = time.Now().Add(time.Hour)
		for _, room := range []int{0, 10, len(text), len(text) + 1, 4 * len(text)} {
			var o Owners
			buf := make([]byte, 3, room+3)
			b, when, err := o.ReadInto(buf, name, int64(len(text)))
			if err != nil || !bytes.Equal(b, text) || !when.Equal(changed) {
				t.Errorf("room for %d: %d bytes of %v, %v", room, len(b), when, err)
			}
			if room > len(text) && &b[0] != &buf[0] {
				t.Errorf("room for %d: is not used", room)
			}
			if os.Geteuid() == 0 && !o.knows(nobody) {
				t.Errorf("the owner is not noted")
			}
		}
		var none *Owners
		if b, _, err := none.ReadInto(nil, name, int64(len(text))-1); err == nil || b != nil {
			t.Errorf("too large: %d bytes, %v", len(b), err)
		}
		for name, want := range map[string]error{pipe: ErrNotRegular, "/dev/zero": ErrNotRegular, dir: syscall.EISDIR, filepath.Join(dir, "none"): fs.ErrNotExist} {
			if b, _, err := none.ReadInto(nil, name, MostData); !errors.Is(err, want) || b != nil {
				t.Errorf("%s: %d bytes, %v, want %v", name, len(b), err, want)
			}
		}
		// The one says that it is empty, and is not; the other cannot be read.
		if b, _, err := none.ReadInto(nil, "/proc/self/status", 1<<20); err != nil || !bytes.HasPrefix(b, []byte("Name:")) {
			t.Errorf("/proc/self/status: %q, %v", b, err)
		}
		if b, _, err := none.ReadInto(nil, "/proc/self/status", 10); err == nil || b != nil {
			t.Errorf("/proc/self/status, 10 bytes: %q, %v", b, err)
		}
		if b, _, err := none.ReadInto(nil, "/proc/self/mem", 1<<20); !errors.Is(err, syscall.EIO) || b == nil {
			t.Errorf("/proc/self/mem: %v, %v", b, err)
		}
	}
}
