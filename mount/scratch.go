//go:build linux

package mount

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A scratch is a file that somebody has written into the directory of a process: gcovr has gcov write listings
// beside the data files, reads them, and removes them. Its bytes are in a file without a name in the directory
// for temporary ones, which is gone when footfall ends, however that is. Whoever has it open keeps it.
type scratch struct {
	fs.Inode
	ino     uint64
	content *os.File
}

var (
	_ fs.NodeOpener    = (*scratch)(nil)
	_ fs.NodeReader    = (*scratch)(nil)
	_ fs.NodeWriter    = (*scratch)(nil)
	_ fs.NodeFlusher   = (*scratch)(nil)
	_ fs.NodeFsyncer   = (*scratch)(nil)
	_ fs.NodeGetattrer = (*scratch)(nil)
	_ fs.NodeSetattrer = (*scratch)(nil)
)

// newScratch makes an empty file.
func newScratch(ino uint64) (*scratch, error) {
	f, err := os.CreateTemp("", "footfall-mount-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return &scratch{ino: ino, content: f}, nil
}

// reserved tells whether a name is one that only the files of a program have: nobody else puts counters there.
func reserved(name string) bool {
	_, special := specials[name]
	return special || slices.ContainsFunc([]string{dataSuffix, notesSuffix}, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// Create makes a scratch file.
func (d *directory) Create(_ context.Context, name string, _ uint32, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if reserved(name) {
		return nil, nil, 0, syscall.EACCES
	}
	s, err := newScratch(d.p.m.nextIno())
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	if d.n.children[name] != nil || d.n.scratch[name] != nil {
		return nil, nil, 0, syscall.EEXIST
	}
	if d.n.scratch == nil {
		d.n.scratch = make(map[string]*scratch)
	}
	d.n.scratch[name] = s
	return d.enterScratch(s, out), nil, 0, 0
}

// Unlink removes a scratch file. The others stay; go-fuse would let it pass.
func (d *directory) Unlink(_ context.Context, name string) syscall.Errno {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	switch {
	case d.n.scratch[name] != nil:
		delete(d.n.scratch, name)
		return 0
	case d.n.children[name] != nil:
		return syscall.EPERM
	}
	return syscall.ENOENT
}

func (d *directory) enterScratch(s *scratch, out *fuse.EntryOut) *fs.Inode {
	inode := d.NewInode(context.Background(), s, fs.StableAttr{Mode: syscall.S_IFREG, Ino: s.ino})
	s.attributes(&out.Attr)
	return inode
}

func (s *scratch) attributes(attr *fuse.Attr) syscall.Errno {
	var st syscall.Stat_t
	err := fs.ToErrno(syscall.Fstat(int(s.content.Fd()), &st))
	plain(attr, fileMode)
	attr.Size, attr.Blocks = uint64(st.Size), uint64(st.Blocks)
	changed := time.Unix(st.Mtim.Unix())
	attr.SetTimes(&changed, &changed, &changed)
	return err
}

func (s *scratch) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (s *scratch) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultFd(s.content.Fd(), off, len(dest)), 0
}

func (s *scratch) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := s.content.WriteAt(data, off)
	return uint32(n), fs.ToErrno(err)
}

func (s *scratch) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

// Fsync does nothing: the file does not outlive us.
func (s *scratch) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }

func (s *scratch) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return s.attributes(&out.Attr)
}

// Setattr changes the size; that times are set has no effect.
func (s *scratch) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
		return syscall.EPERM
	}
	if size, ok := in.GetSize(); ok {
		if err := s.content.Truncate(int64(size)); err != nil {
			return fs.ToErrno(err)
		}
	}
	return s.attributes(&out.Attr)
}
