package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Owners are the users whose programs and files say which sources are shown.
// When root runs footfall these sources are read with the rights of each of them:
// otherwise a program whose source is called /etc/shadow would get that into a
// page. All methods may be called at the same time; for nil nobody is noted.
type Owners struct {
	mu     sync.Mutex
	users  map[int]User
	public map[string]bool // directories that everybody may pass
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

// Open is [Open], and notes to whom the file belongs.
func (o *Owners) Open(name string) (*os.File, error) {
	return o.noted(Open(name))
}

// OpenGiven is [OpenGiven], and notes to whom the file belongs.
func (o *Owners) OpenGiven(name string) (*os.File, error) {
	return o.noted(OpenGiven(name))
}

func (o *Owners) noted(f *os.File, err error) (*os.File, error) {
	if err != nil || o == nil || euid != 0 {
		return f, err
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
	if _, _, inside := inProcess(name); inside || served.any() {
		return o.readSourcePatiently(name)
	}
	fd, st, err := openRegular(name)
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(fd)
	if euid == 0 && !o.isPublic(fd, &st, name) {
		if err := o.permit(&st, name); err != nil {
			return nil, false, err
		}
		private = true
	}
	text, err = readAll(nil, regularReader(fd, name, st.Size), name, st.Size, MostSource)
	return text, private, err
}

func (o *Owners) readSourcePatiently(name string) (text []byte, private bool, err error) {
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
		if euid == 0 && !o.isPublic(int(f.Fd()), &st, name) {
			if err := o.permit(&st, name); err != nil {
				return s, err
			}
			s.private = true
		}
		read := func(p []byte) (int, error) {
			n, err := f.Read(p)
			progress.Add(int64(n))
			return n, err
		}
		s.text, err = readAll(nil, read, name, st.Size, MostSource)
		return s, err
	})
	return its.text, its.private, err
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

// openItself is User.Open without patience, and without a copy.
func (u User) openItself(name string) (*os.File, error) {
	if _, _, ok := inProcess(name); ok {
		return openItself(name)
	}
	return u.open(name)
}

// permit returns an error if one of the users may not open what was opened.
func (o *Owners) permit(opened *unix.Stat_t, name string) error {
	for _, u := range o.list() {
		its, err := u.openItself(name)
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

// isPublic tells whether everybody may read what was opened, by its mode and those
// of the directories above it. In the file system of a process its own mode decides.
func (o *Owners) isPublic(fd int, st *unix.Stat_t, name string) bool {
	if st.Mode&unix.S_IROTH == 0 {
		return false
	}
	if _, _, inside := inProcess(name); inside {
		return true
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return err == nil && o.passable(filepath.Dir(path))
}

// passable tells whether everybody may look up names in dir.
func (o *Owners) passable(dir string) bool {
	known, public := o.passed(dir)
	if known {
		return public
	}
	info, err := os.Stat(dir)
	public = err == nil && info.Mode().Perm()&0o001 != 0 && (dir == "/" || o.passable(filepath.Dir(dir)))
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
