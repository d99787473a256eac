//go:build linux

package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/formats/gcov"
	"footfall/process/needs"
	"footfall/process/processtest"
)

// crashVariable has the test program mount a directory and wait to be killed.
const crashVariable = "MOUNT_TEST_CRASH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashVariable); dir != "" {
		if _, err := New(dir, Options{Targets: []string{"no-such-program"}}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("mounted")
		time.Sleep(time.Minute)
	}
	os.Exit(m.Run())
}

// mounted mounts a tree for a test, which is skipped where that cannot be.
func mounted(t *testing.T, targets ...string) string {
	t.Helper()
	return mountAt(t, t.TempDir(), targets...).Dir()
}

func mountAt(t *testing.T, dir string, targets ...string) *Mount {
	t.Helper()
	if err := deviceThere(); err != nil {
		needs.Skip(t, needs.FUSE, err)
	}
	var over atomic.Bool // a tree that is in use is looked after beyond the test
	m, err := New(dir, Options{Targets: targets, Notice: func(text string) {
		if !over.Load() {
			t.Logf("notice: %s", text)
		}
		if len(targets) == 0 && strings.Contains(text, "thread of the kernel") {
			t.Errorf("of all processes none was named: %s", text)
		}
	}})
	if err != nil && strings.Contains(err.Error(), "cannot mount") {
		needs.Skip(t, needs.FUSE, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Unmount(); err != nil {
			t.Error(err)
		}
		over.Store(true)
	})
	return m
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// read reads a file at once, as one open does.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// calls is how often the function was called that has one counter: there is one
// in each object of testdata.
func calls(t *testing.T, name string) int64 {
	t.Helper()
	return callsIn(t, read(t, name))
}

func callsIn(t *testing.T, data []byte) int64 {
	t.Helper()
	c, err := gcov.ReadCounts(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Functions {
		if arcs := f.Of(gcov.KindArcs); arcs.Len() == 1 {
			return arcs.At(0)
		}
	}
	t.Fatal("no function has one counter")
	return 0
}

// TestExact compares files with what the program writes itself.
func TestExact(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, strconv.Itoa(p.pid()))
	p.tell("work", "done")
	p.tell("work", "done")
	name := filepath.Join(p.directory(tree), dir, "work.gcda")
	until(t, "the work is seen", func() bool { return calls(t, name) == 2 })
	live := read(t, name)
	if info, err := os.Stat(name); err != nil || info.Size() != int64(len(live)) {
		t.Errorf("size %d, %v; read %d bytes", info.Size(), err, len(live))
	}
	p.tell("dump", "done")
	if want := read(t, filepath.Join(dir, "work.gcda")); !bytes.Equal(live, want) {
		t.Errorf("bytes differ\nprogram  %x\nfootfall %x", want, live)
	}
	for link, want := range map[string]string{"work.gcno": "work.gcno", "work.c": "work.c"} {
		if got, err := os.Readlink(filepath.Join(p.directory(tree), dir, link)); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("link %s to %q, %v", link, got, err)
		}
	}
}

// TestTools runs gcov, lcov and gcovr on the tree, and on the files that the
// program writes in the same state.
func TestTools(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, "mounttest")
	p.tell("work", "done")
	p.tell("load "+dir+"/library.so", "done")
	p.tell("run", "done")
	process := p.directory(tree)
	objects := filepath.Join(process, dir)
	until(t, "the library is there", func() bool {
		_, err := os.Stat(filepath.Join(objects, "library.gcda"))
		return err == nil && calls(t, filepath.Join(objects, "work.gcda")) == 1
	})

	out := t.TempDir()
	run := func(dir, name string, args ...string) string { return processtest.Run(t, dir, name, args...) }
	gcov := func(objects string) string {
		// It takes the name of an object, whether it is there or not.
		s := run(dir, "gcov-12", "-t", "-b", "-c", "-o", filepath.Join(objects, "work.o"), "work.c")
		return strings.ReplaceAll(s, objects+"/", "")
	}
	lcov := func(data string) string {
		run(out, "lcov", "-q", "-c", "--rc", "lcov_branch_coverage=1", "--gcov-tool", "gcov-12", "-d", data, "-o", "out.info")
		return string(read(t, filepath.Join(out, "out.info")))
	}
	gcovr := func(data string) string {
		return run(dir, "gcovr", "--gcov-executable", "gcov-12", "-r", dir, "--csv", "-", data)
	}
	live := []string{gcov(objects), lcov(process), gcovr(objects)}
	info := filepath.Join(out, "all.info")
	if err := os.WriteFile(info, read(t, filepath.Join(process, "all.info")), 0o666); err != nil {
		t.Fatal(err)
	}
	fast := run(out, "lcov", "--rc", "lcov_branch_coverage=1", "--list", info)

	p.tell("dump", "done")
	// A program writes the counters of a library when that is unloaded, or when
	// the program ends.
	if err := os.WriteFile(filepath.Join(dir, "library.gcda"), read(t, filepath.Join(objects, "library.gcda")), 0o666); err != nil {
		t.Fatal(err)
	}
	written := []string{gcov(dir), lcov(dir), gcovr(dir)}
	for i, name := range []string{"gcov", "lcov", "gcovr"} {
		if live[i] != written[i] || len(live[i]) < 100 {
			t.Errorf("%s says of the tree:\n%s\nof files:\n%s", name, live[i], written[i])
		}
	}
	if own := run(out, "lcov", "--rc", "lcov_branch_coverage=1", "--list", "out.info"); after(own) != after(fast) {
		t.Errorf("lcov says of all.info:\n%s\nof its own:\n%s", fast, own)
	}
}

// after leaves out the line that names the file.
func after(s string) string {
	_, rest, _ := strings.Cut(s, "\n")
	return rest
}

// TestReset resets an object, a process and all, by 0 only.
func TestReset(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, strconv.Itoa(p.pid()))
	process := p.directory(tree)
	name := filepath.Join(process, dir, "work.gcda")
	var total int64
	work := func() {
		p.tell("work", "done")
		total++
		want := total
		until(t, "the work is seen", func() bool { return calls(t, name) == want })
	}
	work()
	for _, bad := range []string{"1", "", "00", "0 0", "reset", strings.Repeat("0", 100)} {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.WriteString(bad); bad != "" && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("writing %q: %v", bad, err)
		}
		f.Close()
	}
	work()
	// A file that is opened again is read anew.
	for range 20 {
		before := calls(t, name)
		p.tell("work", "done")
		if total++; calls(t, name) != before+1 {
			t.Error("the work is not seen at once")
		}
	}
	for _, reset := range []string{name, process + "/reset", process + "/all.gcda", tree + "/reset", tree + "/all.gcda"} {
		processtest.Run(t, dir, "sh", "-c", `echo 0 > "$0"`, reset)
		if n := calls(t, name); n != 0 {
			t.Errorf("after 0 to %s there are %d calls", reset, n)
		}
		if b := read(t, process+"/all.info"); !bytes.Contains(b, []byte("FNDA:0,odd\n")) {
			t.Errorf("after 0 to %s: all.info:\n%s", reset, b)
		}
		total = 0
		work()
	}
	// The program has not noticed.
	p.tell("dump", "done")
	if n := calls(t, filepath.Join(dir, "work.gcda")); n != 27 {
		t.Errorf("the program has counted %d calls, want 27", n)
	}
	for i, refuse := range []func() error{
		func() error { return os.Truncate(name, 5) },
		func() error { return os.Chmod(name, 0o600) },
		func() error { return os.Remove(name) },
		func() error { return os.Remove(filepath.Dir(name)) },
		func() error { return os.Rename(name, name+"1") },
		func() error { return os.Remove(tree + "/reset") },
		func() error { return os.WriteFile(filepath.Join(process, "x.gcda"), nil, 0o666) },
		func() error { return os.WriteFile(filepath.Join(process, "all.info"), []byte("0"), 0o666) },
	} {
		if refuse() == nil {
			t.Errorf("change %d was not refused", i)
		}
	}
	if all := read(t, tree+"/reset"); len(all) != 0 {
		t.Errorf("reset holds %q", all)
	}
	entries, err := os.ReadDir(process)
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "all.gcda" }) {
		t.Errorf("all.gcda is listed, lcov would trip over it: %v, %v", entries, err)
	}
}

// TestFrozen reads a file, in parts, by mapping and by copying, while the
// program goes on.
func TestFrozen(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, strconv.Itoa(p.pid()))
	name := filepath.Join(p.directory(tree), dir, "work.gcda")
	before := read(t, name)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.tell("work", "done")
	until(t, "the work is seen", func() bool { return calls(t, name) == 1 })
	p.Kill()
	for at := range before {
		var b [1]byte
		if _, err := f.ReadAt(b[:], int64(at)); err != nil || b[0] != before[at] {
			t.Fatalf("byte %d is %x, %v; it was %x when the file was opened", at, b, err, before[at])
		}
	}
	// All zero counters are left out of a file: this one has grown.
	f.Close()
	now := read(t, name)
	if len(now) <= len(before) {
		t.Errorf("%d bytes, then %d", len(before), len(now))
	}
	mapped := processtest.Run(t, dir, "python3", "-c", `
import mmap, sys
with open(sys.argv[1], "rb") as f:
    print(mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)[:].hex())`, name)
	if got := strings.TrimSpace(mapped); got != fmt.Sprintf("%x", now) {
		t.Errorf("mapped: %s\nread: %x", got, now)
	}
	processtest.Run(t, dir, "cp", name, "copy")
	if got := read(t, filepath.Join(dir, "copy")); !bytes.Equal(got, now) {
		t.Errorf("copied: %x\nread: %x", got, now)
	}
}

// TestMapped maps a file, privately and shared, before and after the program has
// counted on: who opened it first sees what was then, and others do not change
// that, by reading, mapping or resetting.
func TestMapped(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, strconv.Itoa(p.pid()))
	name := filepath.Join(p.directory(tree), dir, "work.gcda")
	p.tell("work", "done")
	type mapping struct {
		flags         int
		bytes, opened []byte
	}
	var all []mapping
	for range 3 {
		for _, flags := range []int{unix.MAP_PRIVATE, unix.MAP_SHARED} {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, flags)
			if err != nil {
				t.Fatalf("mapping with flags %#x: %v", flags, err)
			}
			defer unix.Munmap(b)
			p.tell("work", "done")
			read(t, name)
			// Nobody has touched the mapping so far.
			opened := make([]byte, info.Size())
			if _, err := f.ReadAt(opened, 0); err != nil {
				t.Fatal(err)
			}
			all = append(all, mapping{flags, b, opened})
		}
		processtest.Run(t, dir, "sh", "-c", `echo 0 > "$0"`, name)
	}
	for i, m := range all {
		if !bytes.Equal(m.bytes, m.opened) {
			t.Errorf("mapping %d, flags %#x:\n%x\nread:\n%x", i, m.flags, m.bytes, m.opened)
		}
		if n := callsIn(t, m.opened); n != []int64{1, 2, 0, 1, 0, 1}[i] {
			t.Errorf("opening %d: %d calls", i, n)
		}
	}
}

// TestCopy copies the tree: of a program that counts with cp, and of one that
// stands still with tar, which looks at times and sizes before and after.
func TestCopy(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, strconv.Itoa(p.pid()))
	p.tell("work", "done")
	name := filepath.Join(p.directory(tree), dir, "work.gcda")
	until(t, "the work is seen", func() bool { return calls(t, name) == 1 })
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		processtest.Run(t, dir, "tar", "chf", "copy.tar", tree)
		time.Sleep(20 * time.Millisecond)
	}
	if again, err := os.Stat(name); err != nil || !again.ModTime().Equal(before.ModTime()) {
		t.Errorf("the time of a file that is as it was: %v, then %v, %v", before.ModTime(), again.ModTime(), err)
	}
	p.tell("work", "done")
	until(t, "the work is seen", func() bool { return calls(t, name) == 2 })
	after, err := os.Stat(name)
	if err != nil || !after.ModTime().After(before.ModTime()) || !os.SameFile(before, after) {
		t.Errorf("the time of a file that has changed: %v, then %v, %v; the same inode: %v", before.ModTime(), after.ModTime(), err, os.SameFile(before, after))
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.tell("work", "done")
			}
		}
	})
	for i := range 20 {
		processtest.Run(t, dir, "cp", "-r", filepath.Dir(name), fmt.Sprintf("copy%d", i))
	}
	close(stop)
	busy.Wait()
}

// TestEnd kills a program while it is read, lets another one become something
// else, and one come in its place.
func TestEnd(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	m := mountAt(t, t.TempDir(), "mounttest", "mounttest2", "mountother")
	p.tell("work", "done")
	process := p.directory(m.Dir())
	name := filepath.Join(process, dir, "work.gcda")
	until(t, "the work is seen", func() bool { return calls(t, name) == 1 })
	if err := os.Remove(process); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing a process that runs: %v", err)
	}
	done := make(chan int64, 4)
	for range cap(done) {
		go func() {
			for range 200 {
				if _, err := os.ReadFile(name); err != nil {
					t.Error(err)
				}
			}
			done <- calls(t, name)
		}()
	}
	p.Kill()
	for range cap(done) {
		if n := <-done; n != 1 {
			t.Errorf("%d calls, 1 before it was killed", n)
		}
	}
	until(t, "its end is seen", func() bool { return os.Remove(process) == nil })
	if _, err := os.Stat(process); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was removed: %v", err)
	}

	// exec: the pid goes on as another program, which is called mountother.
	p = start(t, dir, "mounttest2")
	if err := os.Link(filepath.Join(dir, "mounttest"), filepath.Join(dir, "mountother")); err != nil {
		t.Fatal(err)
	}
	before := p.directory(m.Dir())
	until(t, "the program is seen", func() bool { _, err := os.Stat(before); return err == nil })
	p.tell("work", "done")
	until(t, "the work is seen", func() bool { return calls(t, filepath.Join(before, dir, "work.gcda")) == 1 })
	p.tell("exec "+dir+"/mountother", "ready")
	after := filepath.Join(m.Dir(), fmt.Sprintf("%d-mountother", p.pid()))
	until(t, "the next program is seen", func() bool { _, err := os.Stat(after); return err == nil })
	p.tell("work", "done")
	p.tell("work", "done")
	until(t, "its work is seen", func() bool { return calls(t, filepath.Join(after, dir, "work.gcda")) == 2 })
	if n := calls(t, filepath.Join(before, dir, "work.gcda")); n != 1 {
		t.Errorf("the program before has %d calls, want 1", n)
	}
	// Once more, as the same.
	p.tell("exec "+dir+"/mountother", "ready")
	until(t, "the directory before has a number", func() bool { _, err := os.Stat(after + ".1"); return err == nil })
	if old, now := calls(t, filepath.Join(after+".1", dir, "work.gcda")), calls(t, filepath.Join(after, dir, "work.gcda")); old != 2 || now != 0 {
		t.Errorf("%d calls before and %d now, want 2 and 0", old, now)
	}
	if b := read(t, m.Dir()+"/all.info"); !bytes.Contains(b, []byte("FNDA:3,odd\n")) {
		t.Errorf("all.info of all processes:\n%s", b)
	}
}

// TestAppear mounts before there is a program, and opens a library later.
func TestAppear(t *testing.T) {
	dir := build(t)
	tree := mounted(t, "mountlate")
	p := start(t, dir, "mountlate")
	objects := filepath.Join(p.directory(tree), dir)
	until(t, "the program is seen", func() bool { _, err := os.Stat(objects); return err == nil })
	if _, err := os.Stat(objects + "/library.gcda"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the library is not open: %v", err)
	}
	p.tell("load "+dir+"/library.so", "done")
	p.tell("run", "done")
	until(t, "the library is seen", func() bool { _, err := os.Stat(objects + "/library.gcda"); return err == nil })
	if n := calls(t, objects+"/library.gcda"); n != 1 {
		t.Errorf("%d calls in the library, want 1", n)
	}
}

// TestCrowd has processes come while a look at all of them takes very long, as where there are
// thousands, and one that becomes the program that is wanted.
func TestCrowd(t *testing.T) {
	dir := build(t)
	m := mountAt(t, t.TempDir(), "crowd")
	first := start(t, dir, "crowd")
	sees := func(p *program) func() bool { return func() bool { return m.table.isRunning(p.pid()) } }
	until(t, "the first one is seen", sees(first))
	m.table.scanMu.Lock()
	m.table.thoroughTook = time.Hour
	m.table.scanMu.Unlock()
	var crowd []*program
	for range 20 {
		p := &program{t: t, dir: dir, cmd: exec.Command("sh", "-c", "sleep 0.05; exec ./crowd")}
		p.cmd.Dir = dir
		p.Program = processtest.Start(t, p.cmd)
		crowd = append(crowd, p)
	}
	for _, p := range crowd {
		until(t, "each of many is seen", sees(p))
	}
	if n := m.Processes(); n != 21 {
		t.Errorf("%d processes, want 21", n)
	}
}

// TestNumbers: no two files have one number, whatever there is, or one would be read, and reset, in the place of the other.
func TestNumbers(t *testing.T) {
	dir := build(t)
	for range 25 {
		start(t, dir, "mounttest")
	}
	tree := mounted(t, "mounttest")
	numbers := make(map[uint64]string)
	look := func(name string) {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			t.Fatal(err)
		}
		if other := numbers[st.Ino]; other != "" {
			t.Errorf("%s has the number %d of %s", name, st.Ino, other)
		}
		numbers[st.Ino] = name
	}
	if err := filepath.WalkDir(tree, func(name string, _ fs.DirEntry, err error) error {
		look(name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(numbers) < 200 {
		t.Errorf("%d files, too few to tell", len(numbers))
	}
}

// TestLaterLibrary mounts a program, by its pid and by its name, whose first
// counters come with a library.
func TestLaterLibrary(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounthost")
	for _, target := range []string{strconv.Itoa(p.pid()), "mounthost"} {
		m := mountAt(t, t.TempDir(), target)
		if n := m.Processes(); n != 0 {
			t.Fatalf("%d processes have counters so far", n)
		}
		p.tell("load "+dir+"/library.so", "done")
		p.tell("run", "done")
		name := filepath.Join(p.directory(m.Dir()), dir, "library.gcda")
		until(t, "the library is seen", func() bool { _, err := os.Stat(name); return err == nil })
		if n := calls(t, name); n != 1 {
			t.Errorf("%d calls in the library, want 1", n)
		}
		p.tell("unload", "done")
	}
}

// TestLibraryAgain unloads a library and loads it again. When it is unloaded
// libgcov writes its data file, by which the counts of all earlier loads come into
// memory once more.
func TestLibraryAgain(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounthost")
	tree := mounted(t, strconv.Itoa(p.pid()))
	name := filepath.Join(p.directory(tree), dir, "library.gcda")
	own := filepath.Join(dir, "library.gcda")
	var total int64
	for _, n := range []int64{5, 2, 4, 1} {
		p.tell("load "+dir+"/library.so", "done")
		until(t, "the library is seen", func() bool { _, err := os.Stat(name); return err == nil })
		calls(t, name) // what is opened again is read anew
		for range n {
			p.tell("run", "done")
			total++
			if got := calls(t, name); got != total {
				t.Errorf("%d calls, want %d", got, total)
			}
		}
		p.tell("unload", "done")
		if mount, program := calls(t, name), calls(t, own); mount != total || program != total {
			t.Errorf("unloaded: %d calls, the program has written %d, want %d", mount, program, total)
		}
	}
}

// TestOwnReset has the program set its counters to zero: what was to be subtracted
// is gone, and so is what was counted.
func TestOwnReset(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, strconv.Itoa(p.pid()))
	name := filepath.Join(p.directory(tree), dir, "work.gcda")
	check := func(want int64) {
		t.Helper()
		if n := calls(t, name); n != want {
			t.Errorf("%d calls, want %d", n, want)
		}
	}
	for i := range int64(5) {
		p.tell("work", "done")
		check(i + 1)
	}
	if b := read(t, p.directory(tree)+"/all.info"); bytes.Contains(b, []byte("# footfall")) {
		t.Errorf("something is said of a program that has only counted:\n%s", b)
	}
	processtest.Run(t, dir, "sh", "-c", `echo 0 > "$0"`, name)
	p.tell("work", "done")
	check(1)
	p.tell("reset", "done")
	check(0)
	for i := range int64(10) {
		p.tell("work", "done")
		check(i + 1)
	}
	if b := read(t, p.directory(tree)+"/all.info"); !bytes.Contains(b, []byte("mounttest: the program has set its counters to zero")) {
		t.Errorf("that counts have fallen is not said:\n%s", b)
	}
}

// TestAll mounts without a target.
func TestAll(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t)
	p.tell("work", "done")
	name := filepath.Join(p.directory(tree), dir, "work.gcda")
	until(t, "the work is seen", func() bool { return calls(t, name) == 1 })
	late := start(t, dir, "mountlate")
	until(t, "a later program is seen", func() bool { _, err := os.Stat(late.directory(tree)); return err == nil })
	if _, err := os.Stat(filepath.Join(tree, fmt.Sprintf("%d-mount.test", os.Getpid()))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the test itself has no counters: %v", err)
	}
}

// TestPoint mounts where that must not or cannot be.
func TestPoint(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		dir:                           "is not empty: it holds file",
		file:                          "is not a directory",
		filepath.Join(dir, "no"):      "no such directory: mkdir",
		filepath.Join(dir, "no/more"): "no such file",
	} {
		if _, err := New(place, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", place, err, want)
		}
	}
	if _, err := New(t.TempDir(), Options{Targets: []string{"1073741824"}}); err == nil || !strings.Contains(err.Error(), "no process 1073741824") {
		t.Errorf("a pid that is none: %v", err)
	}
	tree := mounted(t, "no-such-program")
	if _, err := New(tree, Options{}); err == nil || !strings.Contains(err.Error(), "mounted there already") {
		t.Errorf("mounted twice: %v", err)
	}
}

// TestCrash kills a footfall, and mounts at the same place.
func TestCrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mountAt(t, t.TempDir(), "no-such-program") // skips where that cannot be
	crash := exec.Command(os.Args[0])
	crash.Env = append(os.Environ(), crashVariable+"="+dir)
	out, err := crash.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := crash.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, _ := out.Read(said)
	_ = crash.Process.Kill()
	_ = crash.Wait()
	if string(said[:n]) != "mounted\n" {
		t.Fatalf("the program that is to crash says %q", said[:n])
	}
	until(t, "the kernel has noticed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, unix.ENOTCONN)
	})
	mountAt(t, dir, "no-such-program")
	if _, err := os.ReadDir(dir); err != nil {
		t.Error(err)
	}
}

// TestBusy unmounts while a file is open.
func TestBusy(t *testing.T) {
	m := mountAt(t, t.TempDir(), "no-such-program")
	f, err := os.Open(m.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := m.Unmount(); err != nil {
		t.Fatal(err)
	}
	if kind, err := mountedOn(m.Dir()); kind != "" || err != nil {
		t.Errorf("still mounted: %s, %v", kind, err)
	}
}

// TestCycles mounts and unmounts a thousand times and looks for descriptors and
// goroutines that stay.
func TestCycles(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 20
	}
	dir := build(t)
	p := start(t, dir, "mounttest")
	place := t.TempDir()
	target := strconv.Itoa(p.pid())
	name := filepath.Join(p.directory(place), dir, "work.gcda")
	cycle := func() {
		m, err := New(place, Options{Targets: []string{target}})
		if err != nil {
			t.Fatal(err)
		}
		read(t, name)
		if err := m.Unmount(); err != nil {
			t.Fatal(err)
		}
	}
	mounted(t, target) // skips where that cannot be
	cycle()
	before := descriptors(t)
	begin := time.Now()
	for range cycles {
		cycle()
	}
	t.Logf("%d cycles in %v", cycles, time.Since(begin).Round(time.Millisecond))
	noMore(t, before)
}

// descriptors counts the open files by what they are.
func descriptors(t *testing.T) map[string]int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	open := make(map[string]int)
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasSuffix(to, "/fd") {
			continue
		}
		kind, _, _ := strings.Cut(to, ":") // pipe:[1234]
		open[kind]++
	}
	return open
}

// noMore waits until no more files are open than before. A tree that is mounted
// opens some at any time, and closes them.
func noMore(t *testing.T, before map[string]int) {
	t.Helper()
	now := before
	more := func() bool {
		now = descriptors(t)
		for kind, n := range now {
			if n > before[kind] {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(time.Minute); more(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("open before: %v\nand after: %v", before, now)
		}
	}
}

// TestDescriptors reads often, of processes that come and go.
func TestDescriptors(t *testing.T) {
	dir := build(t)
	m := mountAt(t, t.TempDir(), "mounttest")
	var before map[string]int
	for range 5 {
		p := start(t, dir, "mounttest")
		name := filepath.Join(p.directory(m.Dir()), dir, "work.gcda")
		until(t, "the program is seen", func() bool { _, err := os.Stat(name); return err == nil })
		for range 50 {
			read(t, name)
			read(t, p.directory(m.Dir())+"/all.info")
		}
		p.Kill()
		until(t, "its end is seen", func() bool { return os.Remove(p.directory(m.Dir())) == nil })
		if before == nil {
			before = descriptors(t)
		}
		noMore(t, before)
	}
}

// TestReaderIsKilled kills a program that reads.
func TestReaderIsKilled(t *testing.T) {
	dir := build(t)
	p := start(t, dir, "mounttest")
	tree := mounted(t, strconv.Itoa(p.pid()))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `while :; do cat "$0" > /dev/null; done`, p.directory(tree)+"/all.info")
	begin := time.Now()
	_ = cmd.Run()
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
