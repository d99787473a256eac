//go:build linux

// Package mount shows the counters of running programs as a tree of files, in
// the manner of the kernel's own in debugfs:
//
//	all.info                  all processes as one tracefile of lcov
//	reset                     writing 0 resets all
//	1234-redis-server/        a process
//	    all.info, reset       the same for this one
//	    src/redis/server.gcda the counters of /src/redis/server.o as they are now
//	    src/redis/server.gcno a link to the notes, /src/redis/server.gcno
//	    src/redis/server.c    a link to the source
//
// so that gcov, lcov and gcovr work on it. Nothing in the programs changes, not
// even by a reset: that is a baseline which is subtracted from then on.
//
// # Frozen files
//
// What a file holds is decided when an open looks it up: the counters of the whole
// process are read then. Opening many files, as lcov does, would read them as
// often; a snapshot therefore also serves those who open another file within
// [sharing] times what it took, a millisecond for most programs. Each state of
// a file is an inode of its own for the kernel, see [file]: nobody's pages, size
// or times change because another one has opened the file later.
//
// # What has ended
//
// The counters of a process are gone with it. So they are read every second
// while the tree is mounted, and the last ones stay. Reading a file never waits
// for the process.
//
// # Names
//
// Objects are named by the program, which may be hostile: no name leads out of
// the directory of its process, see [components]. What is in the way of another
// name goes to a directory 2, 3 and so on.
package mount

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"footfall/input"
	"footfall/live"
)

// fileSystem is what the mount table calls us.
const fileSystem = "footfall"

// Options say what is mounted, and for whom.
type Options struct {
	// Targets are pids, names of processes, or "kernel"; none: every process
	// with counters.
	Targets []string
	// ObjectDirs are searched for notes that are not where they were compiled.
	ObjectDirs []string
	// PathMaps tell where notes and sources are now, OLD=NEW.
	PathMaps []string
	// AllowOther lets other users read. Only the owner resets.
	AllowOther bool
	// Notice tells the user what he should know. It is not called twice at a
	// time.
	Notice func(text string)
}

// A Mount is a mounted tree.
type Mount struct {
	dir     string
	opt     Options
	targets targets
	sources *sources
	known   *live.Known
	server  *fuse.Server
	root    *rootNode
	// detached tells that it was unmounted while it was in use.
	detached        bool
	stop            chan struct{} // closed when it is unmounted
	served, watched sync.WaitGroup
	ino             atomic.Uint64

	noticeMu sync.Mutex
	noticed  map[string]bool

	table table
	trace tracefile
}

// ErrInterrupted is returned by New when footfall is to end.
var ErrInterrupted = errors.New("interrupted")

// New mounts the tree on dir, an empty directory. What a footfall that crashed
// has left there is unmounted first.
func New(dir string, opt Options) (*Mount, error) {
	m := &Mount{opt: opt, known: live.NewKnown(), stop: make(chan struct{}), noticed: make(map[string]bool)}
	var err error
	if m.sources, err = newSources(opt.ObjectDirs, opt.PathMaps); err != nil {
		return nil, err
	}
	if m.targets, err = parseTargets(opt.Targets); err != nil {
		return nil, err
	}
	if m.dir, err = mountPoint(dir, m.notice); err != nil {
		return nil, err
	}
	if err := deviceThere(); err != nil {
		return nil, err
	}
	m.ino.Store(lastRootIno)
	m.root = &rootNode{m: m}
	m.table.init(m.root.moved)
	m.trace.render = func() []byte { return m.tracefile(m.everything()) }
	if err := m.start(); err != nil {
		m.table.close()
		return nil, err
	}
	m.watched.Go(m.watch)
	m.watched.Go(m.keep)
	return m, nil
}

// start looks for processes and mounts.
func (m *Mount) start() error {
	if err := m.firstScan(); err != nil {
		return err
	}
	if m.ends() {
		return ErrInterrupted
	}
	o := &fs.Options{MountOptions: fuse.MountOptions{
		FsName:             fileSystem,
		Name:               fileSystem,
		Options:            []string{"default_permissions", "noexec"},
		AllowOther:         m.opt.AllowOther,
		DirectMount:        true, // root needs no fusermount3
		DisableXAttrs:      true,
		DisableReadDirPlus: true, // it asks for sizes, which cost more than names

		EnableSymlinkCaching: true,
	}}
	// What the library logs is that the kernel has ended the connection, when
	// it is unmounted.
	o.MountOptions.Logger = log.New(io.Discard, "", 0)
	o.PanicHandler = func(why any) fuse.Status {
		m.notice(fmt.Sprintf("please report this: panic: %v\n%s", why, debug.Stack()))
		return fuse.EIO
	}
	o.UID, o.GID = uint32(os.Geteuid()), uint32(os.Getegid())
	var err error
	if m.server, err = fuse.NewServer(fs.NewNodeFS(m.root, o), m.dir, &o.MountOptions); err != nil {
		return mountFailed(m.dir, m.opt.AllowOther, err)
	}
	m.served.Go(m.server.Serve)
	return m.server.WaitMount()
}

// Processes is how many directories there are.
func (m *Mount) Processes() int { return len(m.everything()) }

func (m *Mount) everything() []*target {
	all, _ := m.table.processes()
	return all
}

// Dir is the absolute name of the mount point.
func (m *Mount) Dir() string { return m.dir }

// Wait waits until the tree is unmounted, by whom ever.
func (m *Mount) Wait() {
	m.served.Wait()
	m.table.stopOnce.Do(func() { close(m.stop) })
	m.watched.Wait()
	m.table.close()
}

// Unmount unmounts the tree. Where it is in use it disappears at once, and
// those who use it get errors from then on.
func (m *Mount) Unmount() error {
	if m.detached {
		return nil
	}
	if err := m.server.Unmount(); err == nil {
		m.Wait()
		return nil
	}
	if err := detach(m.dir); err != nil {
		return fmt.Errorf("%s: cannot unmount: %w", m.dir, err)
	}
	m.detached = true
	m.notice(fmt.Sprintf("%s was in use when it was unmounted", m.dir))
	return nil
}

// notice tells something once.
func (m *Mount) notice(text string) {
	m.noticeMu.Lock()
	defer m.noticeMu.Unlock()
	if m.opt.Notice == nil || m.noticed[text] || len(m.noticed) > 1000 {
		return
	}
	m.noticed[text] = true
	m.opt.Notice(text)
}

func (m *Mount) nextIno() uint64 { return m.ino.Add(1) }

// often is how often new processes are looked for and counters are read.
const often = time.Second

// watch looks for new processes every second, and at all others less often where that takes long.
func (m *Mount) watch() {
	var thorough time.Time
	m.every(func() time.Duration {
		begin := time.Now()
		m.scan(0, begin.After(thorough))
		if begin.After(thorough) {
			m.table.scanMu.Lock()
			thorough = begin.Add(rare * m.table.thoroughTook)
			m.table.scanMu.Unlock()
		}
		return often - time.Since(begin) // many may have come
	})
}

// keep reads the counters of all processes every second or, where that takes long, less often: should they
// end, that is what stays.
func (m *Mount) keep() {
	m.every(func() time.Duration {
		begin := time.Now()
		for _, p := range m.everything() {
			if m.ends() {
				break
			}
			p.keep()
		}
		return max(often, rare*time.Since(begin))
	})
}

// rare is how many times what something takes goes by until it is done again.
const rare = 50

// every calls do again and again, each time after the time that it returns, a tenth of a second at least.
func (m *Mount) every(do func() time.Duration) {
	timer := time.NewTimer(often)
	defer timer.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-timer.C:
		}
		timer.Reset(max(do(), often/10))
	}
}

// ends tells whether nobody is to be waited for any more: it is unmounted, or
// footfall is to end.
func (m *Mount) ends() bool {
	select {
	case <-m.stop:
		return true
	case <-input.Hurried():
		return true
	default:
		return false
	}
}

// mountFailed says what is needed to mount.
func mountFailed(dir string, allowOther bool, err error) error {
	next := "a container needs --device /dev/fuse --cap-add SYS_ADMIN"
	switch {
	case errors.Is(err, os.ErrNotExist):
		next = "install fusermount3 (Debian: apt install fuse3), or run footfall as root"
	case allowOther && os.Geteuid() != 0:
		next = "--allow-other needs the line user_allow_other in /etc/fuse.conf"
	}
	return fmt.Errorf("%s: cannot mount: %s: %s", dir, strings.TrimSpace(err.Error()), next)
}
