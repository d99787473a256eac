//go:build linux

package mount

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// lookAgain is how long a look for new processes serves those who list the top
// directory, or look for a process that is not there.
const lookAgain = 100 * time.Millisecond

// How long the kernel need not ask again. That a directory of a process has a directory or a link of that name
// does not change, nor what there is to tell of both; which process has a name may, and the kernel is told. What
// a name of counters leads to is asked each time.
const (
	constant = 24 * time.Hour
	mayMove  = time.Second
)

const (
	directoryMode = syscall.S_IFDIR | 0o755
	fileMode      = syscall.S_IFREG | 0o644
	linkMode      = syscall.S_IFLNK | 0o777
)

// A rootNode is the top directory.
type rootNode struct {
	fs.Inode
	m *Mount
}

var (
	_ fs.NodeLookuper  = (*rootNode)(nil)
	_ fs.NodeReaddirer = (*rootNode)(nil)
	_ fs.NodeGetattrer = (*rootNode)(nil)
	_ fs.NodeRmdirer   = (*rootNode)(nil)
	_ fs.NodeUnlinker  = (*rootNode)(nil)
)

// The files beside the processes have numbers from rootInos on, 1 is that of the directory. All others come after lastRootIno: what has
// the number and the generation of another file is that for the kernel.
const (
	rootInos    = 100
	lastRootIno = rootInos + 99
)

func (r *rootNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if s, ok := specials[name]; ok {
		return r.enter(r.file(s, caller(ctx)), fileMode, rootInos+uint64(s), out), 0
	}
	p := r.m.table.named(name)
	if p == nil {
		r.m.scan(lookAgain, false)
		if p = r.m.table.named(name); p == nil {
			return nil, syscall.ENOENT
		}
	}
	out.SetEntryTimeout(mayMove)
	return r.enter(&directory{p: p, n: p.root}, directoryMode, p.root.ino, out), 0
}

// file returns a file that is about all processes.
func (r *rootNode) file(s special, by uint32) *file {
	if s == traceFile {
		return &file{state: r.m.trace.lookup(by), opened: r.m.trace.open, of: r.m.everything}
	}
	return &file{state: empty, reset: func() bool {
		all := true
		for _, p := range r.m.everything() {
			all = p.startAgain(nil) && all
		}
		return all
	}}
}

// moved has the kernel ask again whose a name is. It may be asking just now, and then waits for
// us: so nobody waits for it.
func (r *rootNode) moved(name string) {
	go r.NotifyEntry(name)
}

func (r *rootNode) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	r.m.scan(lookAgain, false)
	list := []fuse.DirEntry{
		{Name: "all.info", Mode: fileMode, Ino: rootInos + uint64(traceFile)},
		{Name: "reset", Mode: fileMode, Ino: rootInos + uint64(resetFile)},
	}
	all, names := r.m.table.processes()
	for i, p := range all {
		list = append(list, fuse.DirEntry{Name: names[i], Mode: directoryMode, Ino: p.root.ino})
	}
	return fs.NewListDirStream(list), 0
}

// Unlink refuses; go-fuse would let it pass.
func (r *rootNode) Unlink(context.Context, string) syscall.Errno { return syscall.EPERM }

// Rmdir forgets a process that has ended.
func (r *rootNode) Rmdir(_ context.Context, name string) syscall.Errno {
	switch p := r.m.table.named(name); {
	case p == nil:
		return syscall.ENOENT
	case !r.m.table.remove(p):
		return syscall.EBUSY
	}
	return 0
}

// enter makes an inode, or finds that of the same number.
func (r *rootNode) enter(child fs.InodeEmbedder, mode uint32, ino uint64, out *fuse.EntryOut) *fs.Inode {
	return enter(&r.Inode, child, mode, ino, out)
}

func enter(parent *fs.Inode, child fs.InodeEmbedder, mode uint32, ino uint64, out *fuse.EntryOut) *fs.Inode {
	stable := fs.StableAttr{Mode: mode & syscall.S_IFMT, Ino: ino}
	if f, ok := child.(*file); ok {
		stable.Gen = f.state.generation
	}
	inode := parent.NewInode(context.Background(), child, stable)
	plain(&out.Attr, mode)
	out.SetAttrTimeout(constant)
	switch child := inode.Operations().(type) {
	case *file:
		child.attributes(&out.Attr)
		out.SetAttrTimeout(child.constant())
	case *link:
		out.Size = uint64(len(child.to))
	}
	return inode
}

// started is the time of what does not change.
var started = time.Now()

// plain sets the attributes of directories and links.
func plain(attr *fuse.Attr, mode uint32) {
	attr.Mode, attr.Nlink = mode, 1
	attr.SetTimes(&started, &started, &started)
}

func (r *rootNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	plain(&out.Attr, directoryMode)
	out.SetTimeout(mayMove) // and who looks sees when we have crashed
	return 0
}

// A directory is one within that of a process.
type directory struct {
	fs.Inode
	p *target
	n *node
}

var (
	_ fs.NodeLookuper  = (*directory)(nil)
	_ fs.NodeReaddirer = (*directory)(nil)
	_ fs.NodeGetattrer = (*directory)(nil)
	_ fs.NodeRmdirer   = (*directory)(nil)
	_ fs.NodeUnlinker  = (*directory)(nil)
	_ fs.NodeCreater   = (*directory)(nil)
)

func (d *directory) Rmdir(context.Context, string) syscall.Errno { return syscall.EPERM }

func (d *directory) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	plain(&out.Attr, directoryMode)
	out.SetTimeout(constant)
	return 0
}

func (d *directory) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n, s := d.p.lookup(d.n, name)
	switch {
	case s != nil:
		return d.enterScratch(s, out), 0
	case n == nil:
		return nil, syscall.ENOENT
	}
	child, mode := d.child(n, caller(ctx)), n.mode()
	if n.children != nil || n.link != "" {
		out.SetEntryTimeout(constant)
	}
	return enter(&d.Inode, child, mode, n.ino, out), 0
}

// caller is the thread that asks.
func caller(ctx context.Context) uint32 {
	c, _ := fuse.FromContext(ctx)
	if c == nil {
		return 0
	}
	return c.Pid
}

func (d *directory) child(n *node, by uint32) fs.InodeEmbedder {
	p := d.p
	switch {
	case n.children != nil:
		return &directory{p: p, n: n}
	case n.link != "":
		return &link{to: n.link}
	case n.special == traceFile:
		return &file{state: p.trace.lookup(by), opened: p.trace.open, of: func() []*target { return []*target{p} }}
	case n.special == resetFile:
		return &file{state: empty, reset: func() bool { return p.startAgain(nil) }}
	}
	return &file{
		state:  p.lookupState(n, by),
		opened: func() { p.open(n) },
		reset:  func() bool { return p.startAgain(n) },
	}
}

// startAgain resets, and has tracefiles be made anew.
func (p *target) startAgain(n *node) bool {
	done := p.reset(n)
	p.trace.forget()
	p.m.trace.forget()
	return done
}

func (n *node) mode() uint32 {
	switch {
	case n.children != nil:
		return directoryMode
	case n.link != "":
		return linkMode
	}
	return fileMode
}

func (d *directory) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	var list []fuse.DirEntry
	d.p.list(d.n, func(name string, n *node) {
		list = append(list, fuse.DirEntry{Name: name, Mode: n.mode(), Ino: n.ino})
	}, func(name string, s *scratch) {
		list = append(list, fuse.DirEntry{Name: name, Mode: fileMode, Ino: s.ino})
	})
	slices.SortFunc(list, func(a, b fuse.DirEntry) int { return cmp.Compare(a.Name, b.Name) })
	return fs.NewListDirStream(list), 0
}

// A link is a symbolic link.
type link struct {
	fs.Inode
	to string
}

var (
	_ fs.NodeReadlinker = (*link)(nil)
	_ fs.NodeGetattrer  = (*link)(nil)
)

func (l *link) Readlink(context.Context) ([]byte, syscall.Errno) { return []byte(l.to), 0 }

func (l *link) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	plain(&out.Attr, linkMode)
	out.Size = uint64(len(l.to))
	out.SetTimeout(constant)
	return 0
}

// A state is what a file holds from some time on, until that changes. It never
// changes itself.
type state struct {
	content    []byte
	at         time.Time // of the first snapshot that had it
	generation uint64    // its number among the states of the file
}

// empty is the state of a file that is only written.
var empty = &state{at: started}

// next returns the state with that content: s, or the one after it.
func (s *state) next(content []byte, at time.Time) *state {
	switch {
	case s == nil:
		return &state{content: content, at: at, generation: 1}
	case bytes.Equal(s.content, content):
		return s
	}
	return &state{content: content, at: at, generation: s.generation + 1}
}

// A file is one state of a file. The kernel keeps pages, size and times of an
// inode, whoever has opened it: so each state is an inode of its own, although
// all tell the same number (which cp compares), and what a name leads to is
// decided when it is looked up, which open does each time. Writing 0 to any of
// them resets.
type file struct {
	fs.Inode
	state  *state
	opened func()           // tells that somebody reads the state
	reset  func() bool      // nil: not to be written
	of     func() []*target // that are named in it; nil: it has no names
}

var (
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFlusher   = (*file)(nil)
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
)

// Open lets the kernel keep what is read, for it does not change; what is
// written it must not take for that.
func (f *file) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	access := flags & syscall.O_ACCMODE
	if access != syscall.O_RDONLY && f.reset == nil {
		return nil, 0, syscall.EACCES
	}
	if access != syscall.O_WRONLY && f.opened != nil {
		f.opened()
	}
	if access != syscall.O_RDONLY {
		return nil, fuse.FOPEN_DIRECT_IO, 0
	}
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (f *file) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	content := f.state.content
	if off >= int64(len(content)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(content[off:min(off+int64(len(dest)), int64(len(content)))]), 0
}

// Flush tells the kernel that nothing is to be done, and not to ask again.
func (f *file) Flush(context.Context, fs.FileHandle) syscall.Errno { return syscall.ENOSYS }

// Write resets. What is written can only be 0, at the beginning.
func (f *file) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if f.reset == nil {
		return 0, syscall.EACCES
	}
	if off != 0 || len(data) > 16 || string(bytes.TrimSpace(data)) != "0" {
		return 0, syscall.EINVAL
	}
	if !f.reset() {
		return 0, syscall.EBUSY
	}
	return uint32(len(data)), 0
}

func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.attributes(&out.Attr)
	out.SetTimeout(f.constant())
	return 0
}

// constant is how long its attributes stay: a state does not change, but who may read it does.
func (f *file) constant() time.Duration {
	if f.of != nil {
		return 0
	}
	return constant
}

func (f *file) attributes(attr *fuse.Attr) {
	attr.Mode, attr.Nlink = fileMode, 1
	if f.reset == nil {
		attr.Mode &^= 0o222
	}
	if f.of != nil {
		attr.Owner = ownerOf(f.of())
	}
	attr.Size = uint64(len(f.state.content))
	attr.Blocks = (attr.Size + 511) / 512
	attr.SetTimes(&f.state.at, &f.state.at, &f.state.at)
}

// nobody is a user who may read what everybody may.
const nobody = 65534

// ownerOf is to whom a file belongs that has names which processes have chosen: with
// his rights the sources of these names are read by whoever reads the file. Where
// they are of several users it is nobody. Root may do what he likes for himself.
func ownerOf(processes []*target) (o fuse.Owner) {
	o.Uid, o.Gid = uint32(os.Geteuid()), uint32(os.Getegid())
	if o.Uid != 0 {
		return o
	}
	for _, p := range processes {
		if p.user == nil || p.user.UID == 0 {
			continue
		}
		switch its := uint32(p.user.UID); o.Uid {
		case 0:
			o.Uid = its
		case its:
		default:
			o.Uid = nobody
		}
	}
	return o
}

// Setattr accepts that the file is made empty, as shells do before writing, and
// that times are set; neither has an effect.
func (f *file) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	const refused = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID
	size, resized := in.GetSize()
	switch {
	case in.Valid&refused != 0:
		return syscall.EPERM
	case resized && f.reset == nil:
		return syscall.EACCES
	case resized && size != 0:
		return syscall.EINVAL
	}
	return f.Getattr(ctx, h, out)
}
