//go:build linux

package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Root is a directory below which names are resolved as by a process whose
// root it is: "/" and ".." and links, absolute ones too, lead nowhere else.
type Root struct{ dir *os.File } // nil: our own root

// OpenRoot opens a directory as a root, "" for our own.
func OpenRoot(dir string) (*Root, error) {
	if dir == "" {
		return &Root{}, nil
	}
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Root{f}, nil
}

// Close closes it; files that were opened stay open.
func (r *Root) Close() error {
	if r.dir == nil {
		return nil
	}
	return r.dir.Close()
}

// OpenFile opens a file below the root, which is made with the flags of open(2)
// for that. Opening does not wait for the other end of a pipe.
func (r *Root) OpenFile(name string, flags int, mode fs.FileMode) (*os.File, error) {
	fd, err := r.open(name, flags, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (r *Root) open(name string, flags int, mode fs.FileMode) (fd int, err error) {
	how := &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOCTTY),
		// Magic links, those of /proc, lead out of it.
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&unix.O_PATH == 0 {
		how.Flags |= unix.O_NONBLOCK
	} else {
		how.Flags &^= unix.O_NOCTTY
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode.Perm())
	}
	// EAGAIN: something was renamed meanwhile, so that it could not be told
	// whether ".." leads out.
	for range 100 {
		if r.dir == nil { // also on older kernels
			fd, err = unix.Open(name, int(how.Flags), uint32(how.Mode))
		} else {
			fd, err = unix.Openat2(int(r.dir.Fd()), name, how)
		}
		if err != unix.EINTR && err != unix.EAGAIN {
			break
		}
	}
	if errors.Is(err, unix.ENOSYS) {
		err = fmt.Errorf("%w: openat2 needs Linux 5.6, or a sandbox that permits it", errors.ErrUnsupported)
	}
	return fd, err
}

// MkdirAll makes a directory below the root, with those above it.
func (r *Root) MkdirAll(name string, mode fs.FileMode) error {
	name = path.Clean(name)
	fd, err := r.open(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		return unix.Close(fd)
	}
	if name == path.Dir(name) || !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	if err := r.MkdirAll(path.Dir(name), mode); err != nil {
		return err
	}
	if fd, err = r.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		err = unix.Mkdirat(fd, path.Base(name), uint32(mode.Perm()))
		unix.Close(fd)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// inProcess takes /proc/PID/root/... apart, and the same of a thread,
// /proc/PID/task/TID/root/...: process is what comes before root.
func inProcess(name string) (process, inside string, ok bool) {
	rest, ok := strings.CutPrefix(name, "/proc/")
	if !ok || !strings.Contains(rest, "/root/") {
		return "", "", false
	}
	number, rest, _ := strings.Cut(rest, "/")
	if of, isThread := strings.CutPrefix(rest, "task/"); isThread {
		number, rest, _ = strings.Cut(of, "/")
	}
	inside, ok = strings.CutPrefix(rest, "root/")
	if _, err := strconv.ParseUint(number, 10, 31); err != nil || !ok {
		return "", "", false
	}
	return strings.TrimSuffix(name, "/root/"+inside), "/" + inside, true
}

// OpenBelow is [Open] below a directory that is a root, with the rights of the
// user. The root itself is opened with ours.
func (u User) OpenBelow(dir, name string) (f *os.File, err error) {
	return openPatiently(path.Join(dir, name), func(string) (*os.File, error) { return u.openBelow(dir, name) })
}

// OpenThat is OpenBelow, "" for our own root, of a file that is wanted. Where a
// process answers for its file system the file itself is asked about, and its copy
// returned.
func (u User) OpenThat(dir, name string, wanted func(*os.File) bool) (*os.File, error) {
	open := func(string) (*os.File, error) {
		f, err := u.openBelow(dir, name)
		if err == nil && !wanted(f) {
			f.Close()
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is another file by now")}
		}
		return f, err
	}
	if dir == "" && !served.any() {
		return open(name)
	}
	return openPatiently(path.Join(dir, name), open)
}

// OpenBy is [Open] of a file that is opened in another way than by its name.
func OpenBy(name string, open func() (*os.File, error)) (*os.File, error) {
	return openPatiently(name, func(string) (*os.File, error) {
		f, err := open()
		if err != nil {
			return nil, err
		}
		return checked(f, name)
	})
}

func (u User) openBelow(dir, name string) (f *os.File, err error) {
	err = u.below(dir, func(root *Root) error {
		f, err = root.OpenRegular(name)
		return err
	})
	return f, err
}

func (u User) below(dir string, do func(*Root) error) error {
	root, err := OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return u.Do(func() error { return do(root) })
}

// openOf is Open in the file system of a process, with the rights of its user.
func openOf(process, inside, name string) (*os.File, error) {
	user, err := ofProcess(process)
	if err != nil {
		return nil, renamed(err, name)
	}
	f, err := user.OpenBelow(process+"/root", inside)
	return f, renamed(err, name)
}

// OpenRegular is [Open] below the root.
func (r *Root) OpenRegular(name string) (*os.File, error) {
	info, err := r.Stat(name)
	if err == nil {
		err = regular(info.Sys().(*syscall.Stat_t).Mode)
	}
	if err != nil {
		return nil, renamed(err, name)
	}
	f, err := r.OpenFile(name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return checked(f, name)
}

// Stat tells of a file below the root.
func (r *Root) Stat(name string) (fs.FileInfo, error) {
	f, err := r.OpenFile(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return info, nil
}

func statOf(process, inside, name string) (info os.FileInfo, err error) {
	user, err := ofProcess(process)
	if err != nil {
		return nil, renamed(err, name)
	}
	return patiently(name, func() (info os.FileInfo, err error) {
		err = user.below(process+"/root", func(root *Root) error {
			info, err = root.Stat(inside)
			return err
		})
		return info, renamed(err, name)
	})
}

// StatsBelow tells of files below a directory that is a root, with the rights of the user, and for all the patience
// of one; nil: it is not there, or may not be known.
func (u User) StatsBelow(dir string, names []string) ([]fs.FileInfo, error) {
	return patiently(dir, func() ([]fs.FileInfo, error) {
		infos := make([]fs.FileInfo, len(names))
		err := u.below(dir, func(root *Root) error {
			for i, name := range names {
				infos[i], _ = root.Stat(name)
			}
			return nil
		})
		return infos, err
	})
}

// renamed has an error tell the name by which we know a file.
func renamed(err error, name string) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: name, Err: at.Err}
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}
