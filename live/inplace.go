//go:build linux

package live

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"footfall/formats/gcov"
	"footfall/input"
)

// WriteInPlace adds the counts of units of the process to the data files that
// the program itself would write when it ends, as the program would: named by
// GCOV_PREFIX and GCOV_PREFIX_STRIP of its environment, locked, as one more
// run. Missing files and directories are made. It does so with the rights of
// the program's user. It returns the number of files, and of units that were
// skipped: whose data files the program has written itself, since the counts
// are to be counted, so that they hold what is in these. The error tells of those that
// could not be written.
func (p *CountedProcess) WriteInPlace(units []Unit) (n, skipped int, err error) {
	place, err := p.placer()
	if err != nil {
		return 0, 0, err
	}
	var problems []error
	user, err := p.proc.User()
	if err != nil {
		return 0, 0, err
	}
	root, err := input.OpenRoot(place.root)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	err = user.Do(func() error {
		for _, u := range units {
			if u.Load != nil && (u.Load.Dumped || u.Load.Writing) {
				skipped++
				continue
			}
			name := place.of(u.Name)
			if err := addTo(root, strings.TrimPrefix(name, place.root), u.Counts); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
				continue
			}
			n++
		}
		return nil
	})
	return n, skipped, errors.Join(append(problems, err)...)
}

// A placer knows where a program writes data files.
type placer struct {
	pid       int
	named     int // the process that it was forked from when the names of profiles were made; 0: none
	env       map[string]string
	root, dir string // how to reach its root and working directory
}

// placer is that of libgcov, which asks for variables of the environment when it writes.
func (p *CountedProcess) placer() (*placer, error) {
	env, err := p.environment()
	if err != nil {
		return nil, err
	}
	return p.placerBy(env)
}

// startPlacer is that of runtimes that ask for the environment when the program begins.
func (p *CountedProcess) startPlacer() (*placer, error) {
	env, err := p.proc.Environment()
	if err == nil && len(env) == 0 {
		env, err = p.environment()
	}
	if err != nil {
		return nil, err
	}
	return p.placerBy(env)
}

// environment is what the program has now, as far as that is known, else what it was started with.
func (p *CountedProcess) environment() (map[string]string, error) {
	if p.environ == nil && p.guest == nil {
		if maps, _, err := p.proc.Maps(); err == nil {
			p.environ = p.proc.Environ(maps)
		}
	} else if p.env != nil && p.proc.Unchanged(p.environ) {
		return p.env, nil
	}
	if p.environ != nil {
		env, now, err := p.proc.CurrentEnvironment(p.environ)
		if err == nil && (env != nil || !isStarting(p.proc)) {
			p.environ, p.env = now, env
			return env, nil
		}
	}
	return p.proc.Environment()
}

func (p *CountedProcess) placerBy(env map[string]string) (*placer, error) {
	place := &placer{pid: p.PID, env: env, root: p.proc.Root(), dir: filepath.Join(p.proc.Dir(), "cwd")}
	if place.root == "" {
		return place, nil
	}
	// Links of /proc lead anywhere: below its root names are what counts.
	top, err := os.Readlink(place.root)
	if err != nil {
		return nil, err
	}
	dir, err := os.Readlink(place.dir)
	if err != nil {
		return nil, err
	}
	place.dir = filepath.Join(place.root, strings.TrimPrefix(dir, strings.TrimSuffix(top, "/")))
	return place, nil
}

// of returns the path, for us, of the data file of a recorded name.
func (p *placer) of(name string) string {
	name = p.expand(p.relocate(name))
	switch {
	case !path.IsAbs(name):
		return filepath.Join(p.dir, name)
	case p.root != "":
		return filepath.Join(p.root, name)
	}
	return filepath.Clean(name)
}

// here returns a path of [placer.of] that is the same for all processes which have the file in
// common, whichever of them shows where it is.
func (p *placer) here(name string) string {
	if p.root != "" {
		if st, err := os.Stat(p.root); err == nil {
			id := st.Sys().(*syscall.Stat_t)
			return fmt.Sprintf("%d:%d%s", id.Dev, id.Ino, strings.TrimPrefix(name, p.root))
		}
		return name
	}
	if below, is := strings.CutPrefix(name, p.dir+"/"); is {
		if dir, err := os.Readlink(p.dir); err == nil {
			return filepath.Join(dir, below)
		}
	}
	return name
}

// relocate takes GCOV_PREFIX_STRIP directories from the beginning of the name,
// but never its last part, and puts GCOV_PREFIX there.
func (p *placer) relocate(name string) string {
	strip, _ := strconv.Atoi(leadingDigits(p.env["GCOV_PREFIX_STRIP"]))
	prefix := strings.TrimSuffix(p.env["GCOV_PREFIX"], "/")
	if prefix == "" && strip > 0 {
		prefix = "."
	}
	for at := strings.TrimPrefix(name, "/"); strip > 0; strip-- {
		i := strings.IndexByte(at, '/')
		if i < 0 {
			break
		}
		name, at = at[i:], at[i+1:]
	}
	if prefix != "" && !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	return prefix + name
}

func leadingDigits(s string) string {
	s = strings.TrimSpace(s)
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// expand replaces %p by the pid and %q{NAME} by a variable of the environment.
// Programs stop at any other %.
func (p *placer) expand(name string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(name, "%")
		b.WriteString(before)
		variable, rest, closed := strings.Cut(strings.TrimPrefix(after, "q{"), "}")
		switch {
		case !ok:
			return b.String()
		case strings.HasPrefix(after, "p"):
			b.WriteString(strconv.Itoa(p.pid))
			name = after[1:]
		case strings.HasPrefix(after, "q{") && closed:
			b.WriteString(p.env[variable])
			name = rest
		default:
			return b.String() + "%" + after
		}
	}
}

// maxDataFile is the largest data file that is merged into.
const maxDataFile = 1 << 30

// addTo adds counts to a data file.
func addTo(root *input.Root, name string, counts *gcov.Counts) error {
	return changeData(root, name, func(old []byte) ([]byte, error) { return merged(counts, old) })
}

// changeData makes a data file be what change makes of what it is. Programs that end at the same time
// wait for the same lock, so the file must stay the one that it is; its new content is written at
// once.
func changeData(root *input.Root, name string, change func(old []byte) ([]byte, error)) error {
	f, err := openLocked(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := io.ReadAll(io.LimitReader(f, maxDataFile))
	if err != nil {
		return err
	}
	b, err := change(old)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(b)))
}

// openLocked opens a data file, which is made if it is not there, and locks it until it is closed.
func openLocked(root *input.Root, name string) (*os.File, error) {
	f, err := openData(root, name)
	if err != nil {
		return nil, err
	}
	if err := lockData(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f, nil
}

// lockPatience is how long others may have a data file locked, less in tests: programs
// do it for a moment, and one that never lets go stops nobody.
var lockPatience = input.Patience

func lockData(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for end := time.Now().Add(lockPatience); ; {
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
		held := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES)
		switch {
		case !held && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(end):
			return fmt.Errorf("another process has held it for %v", lockPatience)
		case !held:
			continue
		}
		select {
		case <-input.Hurried():
			return errors.New("another process holds it")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// merged returns counts, added to those of an old data file, if there is one.
// Data of another build is replaced, as programs do.
func merged(counts *gcov.Counts, old []byte) ([]byte, error) {
	b := counts.Encode()
	if len(old) == 0 {
		return b, nil
	}
	earlier, err := gcov.ReadCounts(old)
	if err != nil {
		return nil, fmt.Errorf("nothing is added to what is no sound data file: %w", err)
	}
	if earlier.Stamp != counts.Stamp {
		return b, nil
	}
	sum, err := gcov.ReadCounts(b) // counts stay as they are
	if err == nil {
		err = sum.Merge(earlier)
	}
	if err != nil {
		return nil, err
	}
	return sum.Encode(), nil
}

// openData opens a data file below the root of a program, and makes it if it is
// missing. It does not follow a link in the last place, and takes nothing but a
// file.
func openData(root *input.Root, name string) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW
	f, err := root.OpenFile(name, flags, 0o666)
	if errors.Is(err, os.ErrNotExist) {
		if err = root.MkdirAll(filepath.Dir(name), 0o777); err == nil {
			f, err = root.OpenFile(name, flags, 0o666)
		}
	}
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.New("no regular file")
	}
	return f, nil
}
