//go:build linux

package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Owners are the users whose programs and files say which sources are shown.
// When root runs footfall these sources are read with the rights of each of them:
// otherwise a program whose source is called /etc/shadow would get that into a
// page. All methods may be called at the same time; for nil nobody is noted.
type Owners struct {
	mu        sync.Mutex
	users     map[int]User
	processes map[string]bool // by their directories in /proc: those that are shown
	public    map[string]bool // directories that everybody may pass
}

// Note adds a user. Root's own data say what they like.
func (o *Owners) Note(u User) {
	if o == nil || u.UID == 0 || euid != 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == nil {
		o.users = make(map[int]User)
	}
	o.users[u.UID] = u
}

// NoteProcess adds the user of a process that is shown. Into its file system the data
// of all may lead.
func (o *Owners) NoteProcess(pid int, u User) {
	o.noteProcess(fmt.Sprintf("/proc/%d", pid))
	o.Note(u)
}

func (o *Owners) noteProcess(dir string) {
	if o == nil || euid != 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.processes == nil {
		o.processes = make(map[string]bool)
	}
	o.processes[whole(dir)] = true
}

// Open is [Open], and notes to whom the file belongs.
func (o *Owners) Open(name string) (*os.File, error) {
	f, err := Open(name)
	return o.noted(f, name, err)
}

// OpenGiven is [OpenGiven], and notes to whom the file belongs.
func (o *Owners) OpenGiven(name string) (*os.File, error) {
	f, err := OpenGiven(name)
	return o.noted(f, name, err)
}

func (o *Owners) noted(f *os.File, name string, err error) (*os.File, error) {
	if err != nil || o == nil || euid != 0 {
		return f, err
	}
	if process, _, inside := inProcess(name); inside {
		o.noteProcess(process) // which is shown by that
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	o.noteUID(int(st.Uid))
	return f, nil
}

// noteUID adds a user by his number.
func (o *Owners) noteUID(uid int) {
	if o != nil && euid == 0 && uid != 0 && !o.knows(uid) {
		o.Note(Account(uid))
	}
}

func (o *Owners) knows(uid int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.users[uid]
	return known
}

// list returns the users in the order of their numbers.
func (o *Owners) list() []User {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	users := make([]User, 0, len(o.users))
	for _, u := range o.users {
		users = append(users, u)
	}
	slices.SortFunc(users, func(a, b User) int { return a.UID - b.UID })
	return users
}

// ReadSource reads a source that may be shown. private tells that root reads what
// not everybody may read.
func (o *Owners) ReadSource(name string) (text []byte, private bool, err error) {
	return o.ReadSourceInto(nil, name)
}

// ReadSourceInto is ReadSource into buf, or where there is more room. After an error
// buf is not to be used again: somebody may still wait for the file, and write into it.
func (o *Owners) ReadSourceInto(buf []byte, name string) (text []byte, private bool, err error) {
	if _, _, inside := inProcess(name); inside || served.any() {
		return o.readSourcePatiently(buf, name)
	}
	fd, st, err := openRegular(name)
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(fd)
	if private, err = o.admit(fd, &st, name); err != nil {
		return nil, false, err
	}
	text, err = readAll(buf, regularReader(fd, name, st.Size), name, st.Size, MostSource)
	return text, private, err
}

func (o *Owners) readSourcePatiently(buf []byte, name string) (text []byte, private bool, err error) {
	type source struct {
		text    []byte
		private bool
	}
	its, err := progressing(name, func(progress *atomic.Int64) (s source, err error) {
		// The file itself: of a copy nobody can tell who may read it.
		f, err := openItself(name)
		if err != nil {
			return s, err
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return s, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		if s.private, err = o.admit(int(f.Fd()), &st, name); err != nil {
			return s, err
		}
		read := func(p []byte) (int, error) {
			n, err := f.Read(p)
			progress.Add(int64(n))
			return n, err
		}
		s.text, err = readAll(buf, read, name, st.Size, MostSource)
		return s, err
	})
	return its.text, its.private, err
}

// OpenNamed opens a file that data name, of which something is shown: with root's
// rights only what all the users may read, as ReadSource does.
func (o *Owners) OpenNamed(name string) (*os.File, error) {
	open := func(name string) (*os.File, error) {
		f, err := openItself(name)
		if err != nil || euid != 0 {
			return f, err
		}
		var st unix.Stat_t
		if err = unix.Fstat(int(f.Fd()), &st); err == nil {
			_, err = o.admit(int(f.Fd()), &st, name)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
	if _, _, inside := inProcess(name); !inside && !served.any() {
		return open(name)
	}
	return openPatiently(name, open)
}

// openItself is [Open] without patience, and without a copy.
func openItself(name string) (*os.File, error) {
	process, inside, ok := inProcess(name)
	if !ok {
		return open(name)
	}
	user, err := ofProcess(process)
	if err != nil {
		return nil, renamed(err, name)
	}
	f, err := user.openBelow(process+"/root", inside)
	return f, renamed(err, name)
}

// openItself is User.Open without patience, and without a copy. In the file system
// of a process it needs this user's rights, too: data may name those of any process.
func (u User) openItself(name string) (*os.File, error) {
	if process, inside, ok := inProcess(name); ok {
		f, err := u.openBelow(process+"/root", inside)
		return f, renamed(err, name)
	}
	var f *os.File
	err := u.Do(func() error {
		fd, err := openAsNamed(name)
		if err != nil {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		f, err = checked(os.NewFile(uintptr(fd), name), name)
		return err
	})
	return f, err
}

// openAsNamed opens a file where its name leads, without the links of /proc: by
// /proc/self/fd footfall itself would give what it has opened.
func openAsNamed(name string) (fd int, err error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	err = retry(func() error {
		fd, err = unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_MAGICLINKS})
		if err == unix.ENOSYS { // before Linux 5.6
			fd, err = unix.Open(name, flags, 0)
		}
		return err
	})
	if err == unix.ELOOP {
		err = unix.EACCES
	}
	return fd, err
}

// admit returns an error if root opened what one of the users may not, and tells
// whether not everybody may read it.
func (o *Owners) admit(fd int, st *unix.Stat_t, name string) (private bool, err error) {
	if euid != 0 {
		return false, nil
	}
	if st.Size == 0 && isProc(fd) && len(o.list()) > 0 {
		// What is in these depends on who opens them.
		return false, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("tells of processes or of the kernel, and is no source: %w", fs.ErrPermission)}
	}
	if _, _, inside := inProcess(name); inside {
		// Where the file system of a process begins nobody can tell who passes the
		// directories above; whether everybody may read it is told by its own mode.
		private = st.Mode&unix.S_IROTH == 0
	} else if private = !o.isPublic(fd, st); !private {
		return false, nil
	}
	if err := o.permit(st, name); err != nil {
		return false, err
	}
	return private, nil
}

// permit returns an error if one of the users may not open what was opened.
func (o *Owners) permit(opened *unix.Stat_t, name string) error {
	process, _, inside := inProcess(name)
	for _, u := range o.list() {
		its, err := (*os.File)(nil), error(fs.ErrPermission)
		if !inside || o.shows(process) {
			its, err = u.openItself(name)
		}
		if err == nil {
			if !isThat(its, opened) {
				err = &fs.PathError{Op: "open", Path: name, Err: errors.New("was replaced while it was opened")}
			}
			its.Close()
		}
		if errors.Is(err, fs.ErrPermission) {
			err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("user %d, to whom data belong that name it, may not read it: %w", u.UID, fs.ErrPermission)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isThat(f *os.File, other *unix.Stat_t) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Dev == other.Dev && st.Ino == other.Ino
}

// shows tells whether a process is one that is shown, or of a user whose data are.
func (o *Owners) shows(process string) bool {
	o.mu.Lock()
	shown := o.processes[whole(process)]
	o.mu.Unlock()
	user, err := ofProcess(process)
	return shown || err == nil && o.knows(user.UID)
}

// whole is the directory of a process, given that of one of its threads.
func whole(process string) string {
	process, _, _ = strings.Cut(process, "/task/")
	return process
}

// isProc tells whether an open file is of a /proc.
func isProc(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) != nil || st.Type == unix.PROC_SUPER_MAGIC
}

// isPublic tells whether everybody may read what was opened, by its mode and those
// of the directories above it. A file that has no name here, as it was opened by a
// link of /proc into another file system or to what is in memory, is not public.
func (o *Owners) isPublic(fd int, st *unix.Stat_t) bool {
	if st.Mode&unix.S_IROTH == 0 {
		return false
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	var here unix.Stat_t
	return err == nil && o.passable(filepath.Dir(path)) &&
		retry(func() error { return unix.Lstat(path, &here) }) == nil && here.Dev == st.Dev && here.Ino == st.Ino
}

// passable tells whether everybody may look up names in dir, which has no links in it.
func (o *Owners) passable(dir string) bool {
	known, public := o.passed(dir)
	if known {
		return public
	}
	info, err := os.Lstat(dir)
	public = err == nil && info.IsDir() && info.Mode().Perm()&0o001 != 0 && (dir == "/" || o.passable(filepath.Dir(dir)))
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.public == nil {
			o.public = make(map[string]bool)
		}
		o.public[dir] = public
	}
	return public
}

func (o *Owners) passed(dir string) (known, public bool) {
	if o == nil {
		return false, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	public, known = o.public[dir]
	return known, public
}
