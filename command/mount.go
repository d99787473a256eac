//go:build linux

package command

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"footfall/input"
	"footfall/mount"
	"footfall/output"
)

func newMountCommand() *cobra.Command {
	var o mountOptions
	cmd := &cobra.Command{
		Use:   "mount DIR [TARGET...]",
		Short: "Show the live counters of running programs as a tree of .gcda files",
		Long: `Mount shows the coverage counters of running programs, as they are now, as files
below DIR, an empty directory. Programs built with gcc --coverage or
clang --coverage are read from outside: they need not end, and nothing in them
changes. Source-based counters (Clang, Rust) are raw profiles, those of Go
covmeta and covcounters.

A TARGET is one of footfall live: a process id, PID+ (with its descendants), a
name, a path, cgroup:NAME, unit:NAME, all also for processes that start later, or
kernel; without one, every process with counters that this user may look into. New
processes and libraries appear by themselves, also where the first counters of a
process come with a library. Each process is a directory, with the paths that the
compiler recorded:

  DIR/1234-redis-server/src/redis/server.gcda   the counters of server.o
  DIR/1234-redis-server/src/redis/server.gcno   a link to the notes
  DIR/1234-redis-server/src/redis/server.c      a link to the source
  DIR/1234-server/server.profraw                source-based counters
  DIR/1234-redis-server/all.info                the process as an lcov tracefile
  DIR/1234-redis-server/reset                   for resetting the process
  DIR/all.info, DIR/reset                       the same for all processes

gcov, lcov, gcovr and footfall report work on them. What a file holds is decided
when it is opened. What gcovr has gcov write beside the files is kept until it is
removed.

Writing 0 to a .gcda file resets that object, writing 0 to reset everything: from
then on the files show what was counted since. The counters of the program stay
as they are, and so do the files that it writes itself when it ends.

Counts of libraries that are unloaded stay, and those of libraries that are loaded
again come on top. When a program sets its own counters to zero, they are those
since then; all.info says so.

When a process has ended its files stay as they were at most a second before,
until DIR is unmounted or rmdir removes the process; of more than 100 that
have ended the oldest go.

Footfall runs until it is interrupted or DIR is unmounted (fusermount3 -u DIR);
with --daemon it goes to the background when the files are there. If it crashed,
DIR says "Transport endpoint is not connected": mounting there again repairs
that, and so does fusermount3 -u DIR.

This needs FUSE: /dev/fuse, and for other users than root also fusermount3 (in
Debian's package fuse3).`,
		Example: `  # what has the server run up to now, in the words of gcov?
  mkdir /tmp/live
  footfall mount --daemon /tmp/live redis-server
  gcov -t -o /tmp/live/*-redis-server/src/redis/server.gcda server.c

  # the same with lcov, or quicker with the tracefile that is there
  lcov -c -d /tmp/live/1234-redis-server -o live.info
  genhtml -o html /tmp/live/1234-redis-server/all.info

  # gcovr: the root is the directory of the sources in the mount
  gcovr --root /tmp/live/1234-redis-server/src/redis

  # what does one request run?
  echo 0 > /tmp/live/reset
  redis-cli incr counter
  footfall report /tmp/live

  # done
  fusermount3 -u /tmp/live`,
		Args: atLeast("a DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], args[1:])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.foreground, "foreground", false, "stay in the foreground until interrupted (this is the default)")
	f.BoolVar(&o.daemon, "daemon", false, "go to the background when the files are there")
	f.BoolVar(&o.mount.AllowOther, "allow-other", false, "let other users read the files; only you can reset")
	f.StringArrayVarP(&o.mount.ObjectDirs, "object-directory", "o", nil, "search `DIR` for notes (.gcno) that are not where they were compiled")
	f.StringArrayVar(&o.mount.PathMaps, "path-map", nil, "`OLD=NEW`: notes and sources that were below OLD are now below NEW; the first that fits counts")
	cmd.MarkFlagsMutuallyExclusive("foreground", "daemon")
	shareFlags(cmd)
	_ = cmd.MarkFlagDirname("object-directory")
	return cmd
}

type mountOptions struct {
	foreground, daemon bool
	mount              mount.Options
}

// readyVariable names, in the environment of a daemon, the file descriptor on
// which it tells that it is ready.
const readyVariable = "FOOTFALL_READY_FD"

// run mounts and serves until DIR is unmounted.
func (o *mountOptions) run(cmd *cobra.Command, dir string, targets []string) error {
	ready, child := os.LookupEnv(readyVariable)
	if o.daemon && !child {
		return startDaemon()
	}
	os.Unsetenv(readyVariable)
	stderr := cmd.ErrOrStderr()
	o.mount.Targets = targets
	o.mount.Notice = func(text string) { fmt.Fprintf(stderr, "footfall: %s\n", text) }
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	m, err := o.mountUnless(signals, dir)
	if err != nil || m == nil {
		return err
	}
	fmt.Fprintf(stderr, "footfall: mounted %s: %s; fusermount3 -u %s ends it\n", dir, output.Count(m.Processes(), "process", "processes"), dir)
	if child {
		if err := detachDaemon(ready); err != nil {
			return errors.Join(err, m.Unmount())
		}
	}
	unmounted := make(chan struct{})
	go func() {
		m.Wait()
		close(unmounted)
	}()
	select {
	case <-unmounted:
		return nil
	case <-signals:
		signal.Reset() // a second one ends us in any case
		input.Hurry()
		return m.Unmount()
	}
}

// mountUnless mounts, unless a signal comes while processes are looked for, which
// takes long where some are stuck: then there is no mount.
func (o *mountOptions) mountUnless(signals <-chan os.Signal, dir string) (m *mount.Mount, err error) {
	mounted := make(chan struct{})
	go func() {
		m, err = mount.New(dir, o.mount)
		close(mounted)
	}()
	select {
	case <-mounted:
		return m, err
	case <-signals:
		signal.Reset()
		input.Hurry()
	}
	<-mounted
	if err == nil { // it was mounted just then, and ends as it does later
		return nil, m.Unmount()
	}
	return nil, errors.Join(err, mount.ErrInterrupted)
}

// startDaemon runs footfall again, in the background, and waits until it has
// mounted, or failed: then it has said why, and its exit status is ours.
func startDaemon() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	child := exec.Cmd{
		Path: program, Args: os.Args,
		Env:    append(os.Environ(), readyVariable+"=3"),
		Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles:  []*os.File{w},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	// A shell's other open files, such as pipes, must not stay open with us.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err := child.Start(); err != nil {
		w.Close()
		return err
	}
	w.Close()
	if n, _ := r.Read(make([]byte, 1)); n == 1 {
		return child.Process.Release()
	}
	err = child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return &exitError{status: exit.ExitCode()}
	}
	return fmt.Errorf("mounting in the background: %w", errors.Join(err, errors.New("it ended before it was ready")))
}

// detachDaemon lets go of the terminal and of the working directory, and tells
// the parent, which waits at the descriptor, that all is well.
func detachDaemon(ready string) error {
	fd, err := strconv.Atoi(ready)
	if err != nil {
		return fmt.Errorf("%s=%q: %w", readyVariable, ready, err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, std := range []int{0, 1, 2} {
		if err := unix.Dup3(int(null.Fd()), std, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	if err := os.Chdir(string(filepath.Separator)); err != nil {
		return err
	}
	parent := os.NewFile(uintptr(fd), "parent")
	defer parent.Close()
	_, err = parent.Write([]byte{1})
	return err
}
