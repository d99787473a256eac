//go:build linux

package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"footfall/live"
	"footfall/process"
)

// A watching finds processes with counters, which become members of its family.
type watching struct {
	family   *live.Family
	known    *live.Known
	arrivals *process.Arrivals
	targets  []process.Selector // one of them selects whom it finds; none: all
	log      *slog.Logger

	mu      sync.Mutex
	refused map[int]refusal
	has     map[executable]bool // whether what is run has counters
	forked  map[int]bool        // processes with counters that are forks of others which run the same
	roots   map[string]bool     // of processes with counters: where their files are
}

// A refusal is that a process is none that is wanted, has no counters, or cannot be read.
type refusal struct {
	id      process.Identity
	last    time.Time // when somebody asked
	next    time.Time // when it may have become another one, of which nobody has told
	changes bool      // it may become one that is wanted without that
}

// An executable is a file that processes run.
type executable struct {
	dev, inode uint64
	changed    int64
}

const (
	// young processes may not have begun to count so far.
	young = time.Second
	// A process that became another one, of which nobody told, is found within this time.
	becomes = 10 * time.Second
	// Each process is asked about once in a second; what is asked about again before has been made, or become another.
	periodic = 900 * time.Millisecond
	// mostExecutables is how many are kept in mind.
	mostExecutables = 1 << 14
)

func watch(targets []process.Selector, log *slog.Logger) *watching {
	w := &watching{known: live.NewKnown(), targets: targets, log: log, refused: make(map[int]refusal), has: make(map[executable]bool), forked: make(map[int]bool), roots: make(map[string]bool)}
	w.family = live.NewFamily(w.runsCounted)
	w.family.KeepRunning = true
	if pids, err := process.List(); err == nil {
		for _, pid := range pids { // at once, before the first look
			w.found(pid)
		}
	}
	w.arrivals = process.WatchArrivals(process.Everybody(), w.family.Tells, w.found)
	return w
}

func (w *watching) close() {
	w.arrivals.Close()
	w.family.Close()
}

func (w *watching) selects(pid int) bool {
	return len(w.targets) == 0 || slices.ContainsFunc(w.targets, func(s process.Selector) bool { return s.Selects(pid) })
}

// runsCounted tells of what a member has become whether it is known to have counters. What is not known is found
// later as any other process.
func (w *watching) runsCounted(pid int) bool {
	exe, err := executableOf(pid)
	w.mu.Lock()
	defer w.mu.Unlock()
	return err == nil && w.has[exe]
}

func executableOf(pid int) (executable, error) {
	st, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return executable{}, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return executable{}, errors.ErrUnsupported
	}
	return executable{uint64(sys.Dev), sys.Ino, st.ModTime().UnixNano()}, nil
}

// found is called with each process, again and again.
func (w *watching) found(pid int) {
	if w.family.Has(pid) || w.isRefused(pid) {
		return
	}
	id, err := process.Identify(pid)
	if err != nil {
		return
	}
	if !w.selects(pid) {
		w.refuse(pid, id, true) // so far: its name and cgroup may change
		return
	}
	exe, err := executableOf(pid)
	if err != nil { // a thread of the kernel, or somebody else's
		w.refuse(pid, id, false)
		return
	}
	w.mu.Lock()
	has, known := w.has[exe]
	w.mu.Unlock()
	if known && !has {
		w.refuse(pid, id, false)
		return
	}
	p, err := w.known.OpenPatiently(pid)
	if err != nil {
		if time.Since(id.Began()) < young {
			return // it may be about to begin
		}
		if errors.Is(err, live.ErrNoCounters) {
			w.note(exe, false)
		}
		w.refuse(pid, id, false)
		return
	}
	root, forked, nothing := p.Root(), p.Forked(), false
	if p.HasProfiles() && !p.HasCoverage() {
		_, err := p.SnapshotPatiently()
		nothing = errors.Is(err, live.ErrOnlyProfiles)
	}
	p.Close()
	if nothing {
		w.note(exe, false)
		w.refuse(pid, id, false)
		return
	}
	w.mu.Lock()
	w.roots[root] = true
	if forked {
		w.forked[pid] = true
	}
	w.mu.Unlock()
	w.note(exe, true)
	if err := w.family.Add(pid); err != nil && !errors.Is(err, process.ErrExited) {
		w.log.Warn("it cannot be followed", "process", pid, "program", p.Name, "error", err)
		w.refuse(pid, id, false)
	}
}

// note keeps in mind whether what is run has counters.
func (w *watching) note(exe executable, has bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.has) > mostExecutables {
		clear(w.has)
	}
	w.has[exe] = has
}

func (w *watching) refuse(pid int, id process.Identity, changes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.refused) > mostExecutables {
		clear(w.refused)
	}
	now := time.Now()
	w.refused[pid] = refusal{id, now, now.Add(becomes), changes}
}

// isRefused tells it of the process that has the pid now.
func (w *watching) isRefused(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, is := w.refused[pid]
	if !is {
		return false
	}
	now := time.Now()
	told := now.Sub(r.last) < periodic
	r.last = now
	if told || now.After(r.next) {
		if id, err := process.Identify(pid); err != nil || id != r.id || r.changes && !told {
			delete(w.refused, pid)
			return false
		}
		if !told {
			r.next = now.Add(becomes)
		}
	}
	w.refused[pid] = r
	return true
}

// isFork tells it of a process that was found, and not told of when it was forked: what it has inherited is not known.
func (w *watching) isFork(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forked[pid]
}

// rootsOf are the places where files of processes with counters may be: that of one of them, ours, those of others.
func (w *watching) rootsOf(pid int) []string {
	list := []string{w.rootOf(pid)}
	if list[0] != "" {
		list = append(list, "")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for root := range w.roots {
		if !slices.Contains(list, root) {
			list = append(list, root)
		}
	}
	return list
}

// rootOf is where a process has its files, "" if that is not known.
func (w *watching) rootOf(pid int) string {
	p, err := process.Open(pid)
	if pid == 0 || err != nil {
		return ""
	}
	defer p.Close()
	return p.Root()
}
