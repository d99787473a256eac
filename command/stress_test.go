//go:build linux

package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"footfall/formats/gcov"
	"footfall/process/needs"
)

var stressTime = flag.Duration("stress", 4*time.Second, "how long TestStressLive runs")

// TestStressLive reads a program again and again, by footfall live, by its watch
// and by footfall mount, while the program counts, forks, becomes another by
// exec, writes its counters, sets them to zero, opens and closes libraries.
// It counts itself, too, in shared memory: what was done before a look must be
// shown, and no more than was begun after it. Every now and then it stands
// still: then each count must be exact. Nothing may be given up.
func TestStressLive(t *testing.T) {
	if ok, _ := scriptCondition("fuse"); !ok {
		needs.Skip(t, needs.FUSE, "/dev/fuse and fusermount3 (Debian: fuse3)")
	}
	s := newStress(t)
	var readers sync.WaitGroup
	end := time.Now().Add(*stressTime)
	for _, read := range []func(){s.live, s.watch, s.mounted, s.children, s.library} {
		readers.Go(func() {
			for !s.failed.Load() && time.Now().Before(end) {
				read()
			}
		})
	}
	for !s.failed.Load() && time.Now().Before(end) {
		time.Sleep(time.Second)
		s.standStill()
	}
	readers.Wait()
	s.ended()
	t.Logf("%d looks, %d while it stood still; the program: %d resets, %d dumps, %d forks, %d execs, %d times opened a library",
		s.looks.Load(), s.exact, s.truth.number(resetsDone), s.truth.number(dumpsDone), s.truth.number(forksDone), s.truth.number(execsDone), s.truth.number(opensDone))
}

// The layout of truth.h, in numbers of 64 bits.
const (
	stopWanted, stoppedAt, slowLibraries, mayClose, libraryCount = 0, 1, 2, 3, 4
	resetsDone, dumpsDone, forksDone, execsDone, opensDone       = 5, 6, 7, 8, 9
	processesUsed                                                = 10
	libraryTable                                                 = 11
	maxLibraries                                                 = 50
	librarySize                                                  = 4 // epoch, begun, done, all
	processTable                                                 = libraryTable + maxLibraries*librarySize
	maxProcesses                                                 = 4096
	stressFunctions                                              = 8
	processSize                                                  = 4 + 3*stressFunctions // pid, epoch, dumped, dumps, calls
	truthSize                                                    = processTable + maxProcesses*processSize
)

const (
	libraryOpen = 2 // epoch modulo 4
	slow        = 3 // libraries that are closed after the program stood still
)

// Truth is what the program knows of itself.
type truth []uint64

func (x truth) number(i int) uint64    { return atomic.LoadUint64(&x[i]) }
func (x truth) set(i int, to uint64)   { atomic.StoreUint64(&x[i], to) }
func (x truth) processEpoch(p int) int { return processTable + p*processSize + 1 }

// Known is what is true of a function, or was at one time.
type known struct {
	epoch            uint64
	begun, done, all uint64
	stable           bool // the epoch was one all the while
	there            bool // counters exist
	dumped           bool // counts of data files may have come into the counters
	dumps            uint64
}

// of returns what is true of a function: f3 of a process, or g3 of library 3.
func (x truth) of(process int, name string) known {
	n, _ := strconv.Atoi(name[1:])
	epochAt, callsAt := x.processEpoch(process), x.processEpoch(process)+3+3*n
	if name[0] == 'g' {
		epochAt = libraryTable + n*librarySize
		callsAt = epochAt + 1
	}
	k := known{epoch: x.number(epochAt)}
	if name[0] == 'f' {
		k.dumped, k.dumps = x.number(epochAt+1) != 0, x.number(epochAt+2)
	}
	// What is done is read before what is begun, and all last.
	k.done, k.begun, k.all = x.number(callsAt+1), x.number(callsAt), x.number(callsAt+2)
	k.stable = k.epoch == x.number(epochAt) && k.epoch%2 == 0
	k.there = name[0] == 'f' || k.stable && k.epoch%4 == libraryOpen
	return k
}

// dumpedUntil tells whether counts of data files were in the counters at some time
// from k to then.
func (k known) dumpedUntil(then known) bool { return k.dumped || then.dumped || k.dumps != then.dumps }

// A moment is what was true of all functions of a process.
type moment map[string]known

func (s *stress) now(process int) moment {
	m := make(moment)
	for i := range stressFunctions {
		name := fmt.Sprintf("f%d", i)
		m[name] = s.truth.of(process, name)
	}
	for i := range s.libraries {
		name := fmt.Sprintf("g%d", i)
		m[name] = s.truth.of(process, name)
	}
	return m
}

// A stress is a program under test, with those who read it.
type stress struct {
	*testing.T
	dir       string
	libraries int
	truth     truth
	server    *exec.Cmd
	pid       string
	tree      string // where it is mounted
	resetTree string // the same, once more, for resets
	footfall  func(args ...string) *exec.Cmd

	watching *exec.Cmd
	watched  string // the file that the watch writes
	tick     tick   // of the reader of the watch

	turn   sync.RWMutex // readers have it; nobody reads while the program stands still
	looks  atomic.Int64
	exact  int // looks while it stood still
	failed atomic.Bool
	stops  uint64
	shown  [2]map[string]seen // what watch and mount have shown last

	base, liveBase moment // what was true at the last reset in the mount, and by footfall live
}

func (s *stress) wrong(format string, args ...any) {
	s.Helper()
	if !s.failed.Swap(true) {
		s.Errorf(format, args...)
	}
}

func newStress(t *testing.T) *stress {
	s := &stress{T: t, dir: t.TempDir(), libraries: 10}
	if *stressTime > 10*time.Second {
		s.libraries = maxLibraries
	}
	s.shown = [2]map[string]seen{{}, {}}
	s.build()
	s.share()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.footfall = func(args ...string) *exec.Cmd {
		cmd := &exec.Cmd{Path: self, Args: append([]string{"footfall"}, args...), Dir: s.dir}
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+filepath.Join(s.dir, "run"), "LC_ALL=C")
		return cmd
	}
	s.start()
	s.tree, s.resetTree = s.mount("tree", "stressed"), s.mount("resets", s.pid)
	s.watched = filepath.Join(s.dir, "watch.info")
	s.watching = s.footfall("live", s.pid, "--watch=100ms", "--output", "lcov1="+s.watched)
	s.watching.Stderr = s.log("watch")
	s.tick.before = s.now(0)
	if err := s.watching.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// build compiles the program and its libraries.
func (s *stress) build() {
	sources, err := filepath.Abs("../testdata/stress")
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range []string{"truth.h", "server.c", "library.c"} {
		text, err := os.ReadFile(filepath.Join(sources, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.dir, name), text, 0o666)
		}
		if err != nil {
			s.Fatal(err)
		}
	}
	compile := func(args ...string) {
		cmd := exec.Command("gcc-12", append([]string{"-g", "-O0", "--coverage"}, args...)...)
		cmd.Dir = s.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	compile("-fprofile-update=atomic", "-pthread", "-o", "stressed", "server.c", "-ldl")
	for i := range s.libraries {
		compile("-shared", "-fPIC", "-DNUMBER="+strconv.Itoa(i), "-o", fmt.Sprintf("library%d.so", i), "library.c")
	}
}

// share makes the memory that the program shares with us.
func (s *stress) share() {
	f, err := os.Create(filepath.Join(s.dir, "truth"))
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8 * truthSize); err != nil {
		s.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 8*truthSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = unix.Munmap(b) })
	s.truth = unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), truthSize)
	s.truth.set(slowLibraries, slow)
	s.truth.set(libraryCount, uint64(s.libraries))
}

func (s *stress) start() {
	for _, name := range []string{"run", "data"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			s.Fatal(err)
		}
	}
	s.server = exec.Command("./stressed", "truth", ".", "1")
	s.server.Dir = s.dir
	s.server.Env = append(os.Environ(), "GCOV_PREFIX="+filepath.Join(s.dir, "data"))
	s.server.Stderr = s.log("server")
	if err := s.server.Start(); err != nil {
		s.Fatal(err)
	}
	s.pid = strconv.Itoa(s.server.Process.Pid)
	s.Cleanup(func() {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	})
	for deadline := time.Now().Add(time.Minute); s.truth.number(opensDone) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("the program has not begun")
		}
	}
}

// log is a file whose content is told if the test fails.
func (s *stress) log(name string) *os.File {
	f, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o666)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if b, _ := os.ReadFile(f.Name()); len(b) > 0 && s.Failed() {
			s.Logf("%s says:\n%s", name, b)
		}
		f.Close()
	})
	return f
}

func (s *stress) mount(name, target string) string {
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		s.Fatal(err)
	}
	cmd := s.footfall("mount", dir, target)
	cmd.Stderr = s.log(name)
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			s.Errorf("footfall mount: %v", err)
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, s.pid+"-stressed")); err == nil {
			return dir
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s has not been mounted", dir)
		}
	}
}

// counts returns the calls of functions that a tracefile shows.
func counts(tracefile io.Reader) map[string]uint64 {
	all := make(map[string]uint64)
	for lines := bufio.NewScanner(tracefile); lines.Scan(); {
		if calls, name, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "FNDA:"), ","); ok && strings.HasPrefix(lines.Text(), "FNDA:") {
			n, _ := strconv.ParseUint(calls, 10, 64)
			all[name] = n
		}
	}
	return all
}

// A view is how the counts of libraries are shown.
type view int

const (
	ofNow view = iota // those that are open
	ofAll             // also what was counted before they were closed
)

// A seen is what was shown of a function.
type seen struct {
	calls uint64
	epoch uint64 // before the look; odd: not of one
}

// judge compares what a look shows with what was true before and after it. last
// is what was shown before, nil if nothing was.
//
// When the program has written its counters the counts of its data files are in
// memory, too. Who has looked before leaves them out, and may leave out what was
// counted between the last look and then; of who looks once see judgeDumped.
func (s *stress) judge(who string, v view, shown map[string]uint64, before, after moment, last map[string]seen) {
	s.looks.Add(1)
	for _, name := range sorted(before) {
		b, a := before[name], after[name]
		n, there := shown[name]
		same := b.stable && a.stable && b.epoch == a.epoch
		most, least := b.begun+a.all-b.all, b.done
		if name[0] == 'g' && v == ofAll {
			most = a.all
		}
		if b.dumpedUntil(a) {
			// What was counted before a reset is in the file, and in memory again.
			least, most = 0, a.all
		}
		was := last[name]
		mayFall := name[0] == 'f' && (!same || was.epoch != b.epoch)
		switch {
		case !there && same && b.there:
			s.wrong("%s: %s is not shown (%+v, then %+v)", who, name, b, a)
		case n > most:
			s.wrong("%s: %s: %d calls are shown, at most %d were begun (%+v, then %+v)", who, name, n, most, b, a)
		case same && b.there && n < least:
			s.wrong("%s: %s: %d calls are shown, %d were done before (%+v, then %+v)", who, name, n, least, b, a)
		case last != nil && !mayFall && n < was.calls:
			s.wrong("%s: %s: %d calls are shown, and %d before (%+v, then %+v)", who, name, n, was.calls, b, a)
		}
		if last != nil {
			last[name] = seen{n, b.epoch}
		}
	}
}

func sorted(m moment) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// live looks once by footfall live.
func (s *stress) live() {
	s.turn.RLock()
	defer s.turn.RUnlock()
	before := s.now(0)
	shown, said := s.byLive("--total")
	after := s.now(0)
	for name, b := range before {
		s.judgeDumped(name, b, after[name], said, before)
	}
	if s.judge("footfall live", ofNow, shown, before, after, nil); s.failed.Load() {
		s.Logf("footfall live has said:\n%s", said)
	}
}

// judgeDumped has a function be left out of before if footfall live has said that
// counts of data files are in memory, and so it was: the program has written them,
// or a library is just being closed.
func (s *stress) judgeDumped(name string, b, a known, said string, before moment) {
	image, may, must := "stressed", b.dumpedUntil(a), b.dumped && a.dumped && b.epoch == a.epoch
	if name[0] == 'g' {
		image, may, must = "library"+name[1:]+".so", !b.stable || b.epoch != a.epoch, false
	}
	switch told := strings.Contains(said, "/"+image+": the program has written its data files"); {
	case told && !may, must && !told:
		s.wrong("footfall live: %s: are counts of data files in memory? %+v, then %+v:\n%s", name, b, a, said)
	case told:
		delete(before, name)
	}
}

// byLive returns what footfall live shows, and says.
func (s *stress) byLive(options ...string) (shown map[string]uint64, said string) {
	name := filepath.Join(s.dir, "live.info")
	out, err := s.footfall(append([]string{"live", s.pid, "--output", "lcov1=" + name}, options...)...).CombinedOutput()
	if err != nil {
		s.wrong("footfall live: %v\n%s", err, out)
	}
	return s.readCounts(name), string(out)
}

func (s *stress) readCounts(name string) map[string]uint64 {
	b, err := os.ReadFile(name)
	if err != nil {
		s.wrong("%v", err)
	}
	return counts(bytes.NewReader(b))
}

// A tick is a file that the watch has written.
type tick struct {
	info   os.FileInfo
	before moment // before the look began that it shows
	next   moment // before the file was seen
}

// watch looks whether the watch has written its file, and judges it.
func (s *stress) watch() {
	s.turn.RLock()
	defer s.turn.RUnlock()
	s.awaitTick()
	time.Sleep(5 * time.Millisecond)
}

// awaitTick judges what the watch has written since it was asked before, and
// tells whether it has.
func (s *stress) awaitTick() (shown map[string]uint64, written bool) {
	now := s.now(0)
	f, err := os.Open(s.watched)
	if os.IsNotExist(err) && s.tick.info == nil {
		return nil, false
	}
	if err != nil {
		s.wrong("%v", err)
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		s.wrong("%v", err)
		return nil, false
	}
	if s.tick.info != nil && os.SameFile(info, s.tick.info) && info.ModTime().Equal(s.tick.info.ModTime()) {
		s.tick.next = now
		return nil, false
	}
	shown = counts(f)
	s.judge("footfall live --watch", ofAll, shown, s.tick.before, s.now(0), s.shown[0])
	// The next look begins after this file was written, which was not there
	// when we looked before.
	s.tick.info, s.tick.before, s.tick.next = info, s.tick.next, now
	if s.tick.before == nil {
		s.tick.before = now
	}
	return shown, true
}

// mounted reads the tracefile of the program.
func (s *stress) mounted() {
	s.turn.RLock()
	defer s.turn.RUnlock()
	before := s.now(0)
	if shown, late := s.readMounted(); !late {
		s.judge("footfall mount", ofAll, shown, before, s.now(0), s.shown[1])
	}
	// Who is to know what was reset must look often.
	for name, n := range s.readCounts(filepath.Join(s.resetTree, "all.info")) {
		if _, ok := before[name]; ok && n > s.truth.of(0, name).all {
			s.wrong("footfall mount after a reset: %s: %d calls are shown, fewer were begun", name, n)
		}
	}
}

// readMounted returns what the tracefile of the program shows, and whether it says that
// its memory could not be read in time: then it is of before, though no more than was
// begun.
func (s *stress) readMounted() (shown map[string]uint64, late bool) {
	return s.readTracefile(filepath.Join(s.tree, s.pid+"-stressed", "all.info"))
}

func (s *stress) readTracefile(name string) (shown map[string]uint64, late bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		s.wrong("%v", err)
	}
	return counts(bytes.NewReader(b)), bytes.Contains(b, []byte("its memory cannot be read within"))
}

// readInTime reads a tracefile until it is of now.
func (s *stress) readInTime(name string) map[string]uint64 {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		shown, late := s.readTracefile(name)
		if late && time.Now().After(deadline) {
			s.wrong("%s: the memory of the program cannot be read for a minute", name)
		}
		if !late || s.failed.Load() {
			return shown
		}
	}
}

// library maps data files of libraries, which have one counter.
func (s *stress) library() {
	s.turn.RLock()
	defer s.turn.RUnlock()
	files, err := filepath.Glob(filepath.Join(s.tree, s.pid+"-stressed", s.dir, "library*.gcda"))
	if err != nil || len(files) == 0 {
		s.wrong("no library is there: %v", err)
	}
	for _, file := range files {
		name := strings.Replace(strings.TrimSuffix(filepath.Base(file), ".gcda"), "library", "g", 1)
		name, _, _ = strings.Cut(strings.Replace(name, ".so-", "", 1), "l")
		// Who opened another file a moment ago may get the same state. What is
		// opened again is read anew.
		_, err := s.readMapped(file)
		before := moment{name: s.truth.of(0, name)}
		n, errAgain := s.mappedCalls(file)
		for deadline := time.Now().Add(time.Minute); err == nil && errAgain == nil && n < before[name].done && s.wasLate() && time.Now().Before(deadline); {
			n, errAgain = s.mappedCalls(file)
		}
		if err = errors.Join(err, errAgain); err != nil {
			s.wrong("%v", err)
			return
		}
		s.judge("a mapped file", ofAll, map[string]uint64{name: n}, before, moment{name: s.truth.of(0, name)}, nil)
	}
}

// wasLate tells whether the mount has said that it could not read memory in time: then what is
// read may be of before, until it can. A data file does not say that, as the tracefile does.
func (s *stress) wasLate() bool {
	said, err := os.ReadFile(filepath.Join(s.dir, filepath.Base(s.tree)+".log"))
	return err == nil && bytes.Contains(said, []byte("its memory cannot be read within"))
}

// mappedCalls is how often the counted function of a library was called, by a data file.
func (s *stress) mappedCalls(file string) (uint64, error) {
	content, err := s.readMapped(file)
	if err != nil {
		return 0, err
	}
	c, err := gcov.ReadCounts(content)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return callsOf(c), nil
}

// callsOf is how often the counted function of a library was called: by the
// calls of the others, seven each time.
func callsOf(c *gcov.Counts) uint64 {
	var n int64
	for _, f := range c.Functions {
		if arcs := f.Of(gcov.KindArcs); arcs != nil && arcs.Len() == 1 {
			n += arcs.At(0)
		}
	}
	return uint64(n / (stressFunctions - 1))
}

// readMapped maps a file, reads it and compares: a mapping has to show what the
// file was when it was opened.
func (s *stress) readMapped(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	defer unix.Munmap(b)
	time.Sleep(time.Millisecond)
	content, err := io.ReadAll(f)
	if err == nil && !bytes.Equal(content, b) {
		err = fmt.Errorf("%s: mapped it is another file than read", name)
	}
	return bytes.Clone(b), err
}

// children reads the children of the program that are mounted: those that run
// and those that have ended.
func (s *stress) children() {
	s.turn.RLock()
	defer s.turn.RUnlock()
	byPID := make(map[uint64][]int) // a pid has several programs, one after the other
	for p := range min(int(s.truth.number(processesUsed))+1, maxProcesses) {
		if pid := s.truth.number(processTable + p*processSize); p > 0 && pid != 0 {
			byPID[pid] = append(byPID[pid], p)
		}
	}
	dirs, err := filepath.Glob(filepath.Join(s.tree, "*-stressed*"))
	if err != nil {
		s.wrong("%v", err)
	}
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(filepath.Base(dir), "-")
		n, _ := strconv.ParseUint(pid, 10, 64)
		programs := byPID[n]
		if len(programs) == 0 {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "all.info"))
		if err != nil {
			continue // of many that have ended the oldest go
		}
		s.looks.Add(1)
		shown := counts(bytes.NewReader(b))
		for i := range stressFunctions {
			name := fmt.Sprintf("f%d", i)
			var most uint64
			for _, p := range programs {
				most = max(most, s.truth.of(p, name).all)
			}
			if shown[name] > most {
				s.wrong("%s: %s: %d calls are shown, at most %d were begun", dir, name, shown[name], most)
			}
		}
	}
	time.Sleep(20 * time.Millisecond)
}

// standStill stops the program for a moment: everybody must show exactly what is
// true.
func (s *stress) standStill() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.stops++
	s.truth.set(stopWanted, s.stops)
	for deadline := time.Now().Add(time.Minute); s.truth.number(stoppedAt) != s.stops; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.wrong("the program does not stand still")
			return
		}
	}
	now := s.now(0)
	shown, _ := s.byLive("--total")
	s.checkExact("footfall live", now, nil, shown, ofNow)
	if s.liveBase != nil {
		shown, _ = s.byLive()
		s.checkExact("footfall live after a reset", now, s.liveBase, shown, ofNow)
	}
	s.checkExact("footfall mount", now, nil, s.readInTime(filepath.Join(s.tree, s.pid+"-stressed", "all.info")), ofAll)
	if s.base != nil {
		s.checkExact("footfall mount after a reset", now, s.base, s.readInTime(filepath.Join(s.resetTree, "all.info")), ofAll)
	}
	ticks := 0
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		shown, written := s.awaitTick()
		if written {
			ticks++
		}
		if ticks == 3 { // one may be of before, and one begun before
			s.checkExact("footfall live --watch", now, nil, shown, ofAll)
			break
		}
		if time.Now().After(deadline) || s.failed.Load() {
			s.wrong("the watch writes nothing more")
			break
		}
	}
	if s.stops%2 == 0 {
		switch err := os.WriteFile(filepath.Join(s.resetTree, "reset"), []byte("0"), 0); {
		case err == nil:
			s.base = now
		case !errors.Is(err, unix.EBUSY): // else it says that it could not
			s.wrong("%v", err)
		}
	}
	if s.stops%3 == 0 {
		if out, err := s.footfall("live", s.pid, "--reset").CombinedOutput(); err != nil {
			s.wrong("footfall live --reset: %v\n%s", err, out)
		}
		s.liveBase = now
	}
	s.truth.set(mayClose, s.stops)
	s.truth.set(stopWanted, 0)
}

// checkExact compares what is shown of a program that stands still. base is what
// was true at the last reset.
func (s *stress) checkExact(who string, now, base moment, shown map[string]uint64, v view) {
	s.exact++
	for _, name := range sorted(now) {
		k, n := now[name], shown[name]
		if k.dumped {
			continue
		}
		want := k.done
		if name[0] == 'g' && v == ofAll {
			if i, _ := strconv.Atoi(name[1:]); i >= slow {
				continue // some may not have been seen before they were closed
			}
			want = k.all
		}
		if !k.there && v == ofNow {
			want = 0
		}
		if b := base[name]; base != nil {
			times := (k.epoch - b.epoch) / 2 // how often it was set to zero, or opened
			if name[0] == 'g' {
				times /= 2
			}
			switch {
			case name[0] == 'g' && v == ofAll:
				want -= b.all
			case b.epoch == k.epoch:
				want -= b.done
			case v == ofNow && times%stressFunctions == 0:
				continue // it cannot be known without having looked meanwhile
			}
		}
		if n != want {
			s.wrong("%s: %s: %d calls are shown of a program that stands still, %d is right (%+v, at the reset %+v)", who, name, n, want, k, base[name])
		}
	}
}

// ended ends the watch, which must not have ended by itself.
func (s *stress) ended() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.watching.Process.Kill() })
	defer stop()
	if err := s.watching.Process.Signal(os.Interrupt); err != nil {
		s.wrong("the watch has ended: %v", err)
	}
	if err := s.watching.Wait(); err != nil {
		s.wrong("the watch: %v", err)
	}
}
