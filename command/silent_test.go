//go:build linux

package command

import (
	"bytes"
	"context"
	"errors"
	"footfall/process/needs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// silentNames are in both directories of a silent file system.
var silentNames = []string{"x.gcno", "x.gcda", "x.c", "y.gcno", "y.gcda", "footfall.toml", "x.info"}

// mountSilent mounts a file system whose files are never opened (below open) or
// never read (below read), and returns where, and a channel that tells of a process
// that waits.
func mountSilent(t *testing.T) (dir string, asked <-chan struct{}) {
	t.Helper()
	if ok, _ := scriptCondition("fuse"); !ok {
		needs.Skip(t, needs.FUSE, "/dev/fuse and fusermount3")
	}
	dir = t.TempDir()
	waits := make(chan struct{}, 1)
	root := &fs.Inode{}
	server, err := fs.Mount(dir, root, &fs.Options{OnAdd: func(ctx context.Context) {
		for _, name := range []string{"open", "read"} {
			d := root.NewPersistentInode(ctx, &fs.Inode{}, fs.StableAttr{Mode: syscall.S_IFDIR})
			root.AddChild(name, d, false)
			for _, file := range silentNames {
				d.AddChild(file, d.NewPersistentInode(ctx, &silentFile{opens: name == "read", waits: waits}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return dir, waits
}

type silentFile struct {
	fs.Inode
	opens bool
	waits chan<- struct{}
}

// wait returns when the process that asks has been killed.
func (f *silentFile) wait(ctx context.Context) syscall.Errno {
	select {
	case f.waits <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return syscall.EINTR
}

func (f *silentFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o644, 1000
	return 0
}

func (f *silentFile) Open(ctx context.Context, _ uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if f.opens {
		return nil, fuse.FOPEN_DIRECT_IO, 0
	}
	return nil, 0, f.wait(ctx)
}

func (f *silentFile) Read(ctx context.Context, _ fs.FileHandle, _ []byte, _ int64) (fuse.ReadResult, syscall.Errno) {
	return nil, f.wait(ctx)
}

// ourselves is footfall as a process of its own.
func ourselves(ctx context.Context, t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{"footfall"}, args...)
	cmd.Dir = dir
	return cmd
}

// TestSilentFileSystem gives every command files of a file system that never
// answers: it tells of one by name, and ends.
func TestSilentFileSystem(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for nobody's answers for minutes")
	}
	silent, _ := mountSilent(t)
	for _, where := range []string{"open", "read"} {
		in := func(name string) string { return filepath.Join(silent, where, name) }
		for _, test := range []struct {
			args []string
			says string
		}{
			{[]string{"report", in("x.info")}, in("x.info")},
			{[]string{"report", in("")}, in("x.g")},
			{[]string{"report", "source.info", "--output", "html=out.html"}, in("x.c")},
			{[]string{"report", "source.info", "--config", in("footfall.toml")}, in("footfall.toml")},
			{[]string{"report", "source.info", "--diff-base", in("x.c")}, in("x.c")},
			{[]string{"merge", "-o", "sum.info", "source.info", in("x.info")}, in("x.info")},
			{[]string{"gcov", "-n", in("x.gcno")}, in("x.gcno")},
			{[]string{"dump", in("x.gcda")}, in("x.gcda")},
			{[]string{"profile", in("x.info")}, in("x.info")},
			{[]string{"trace", "--read", in("x.info")}, in("x.info")},
			{[]string{"instrument", "-o", "out.s", in("x.c")}, in("x.c")},
		} {
			t.Run(where+"/"+strings.Join(test.args[:1], " ")+"/"+filepath.Base(test.says), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "source.info"), []byte("SF:"+in("x.c")+"\nDA:1,1\nend_of_record\n"), 0o666); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				out, err := ourselves(ctx, t, dir, test.args...).CombinedOutput()
				if ctx.Err() != nil {
					t.Fatalf("%v: does not end: %s", test.args, out)
				}
				if !bytes.Contains(out, []byte(test.says)) {
					t.Errorf("%v: %v: says %q", test.args, err, out)
				}
			})
		}
	}
}

// TestSilentFileSystemSignals: a signal ends footfall while it waits.
func TestSilentFileSystemSignals(t *testing.T) {
	for _, where := range []string{"open", "read"} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(where+"/"+sig.String(), func(t *testing.T) {
				t.Parallel()
				silent, asked := mountSilent(t)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				cmd := ourselves(ctx, t, t.TempDir(), "report", filepath.Join(silent, where, "x.info"))
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-asked:
				case <-ctx.Done():
					t.Error("it does not open the file")
				}
				begin := time.Now()
				if err := cmd.Process.Signal(sig); err != nil {
					t.Error(err)
				}
				var status *exec.ExitError
				if err := cmd.Wait(); ctx.Err() != nil || !errors.As(err, &status) {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		}
	}
}
