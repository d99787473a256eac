//go:build linux

package process

import (
	"maps"
	"os"
	"sync"
	"time"
)

// Arrivals finds processes that a selector selects and that come later: within 50 ms, without looking
// at all others each time. The kernel tells of them if it may; else it is asked for the newest one again and again.
type Arrivals struct {
	selector Selector
	found    func(pid int)
	events   *procEvents // nil: the kernel does not tell
	stop     chan struct{}
	stopped  sync.WaitGroup
}

const (
	arrivalsEach = 20 * time.Millisecond
	// A process may become a selected one by exec a while after it was made; it may as well
	// change its name or its cgroup at any time.
	arrivalsYoung = 2 * time.Second
	arrivalsAll   = time.Second
)

// WatchArrivals calls found, from a goroutine of its own, for each process that is selected, those that run already
// included. For one that is selected for long it is called again and again. Of what a process does of which told tells, and of those
// that it makes, the caller is told otherwise: they need not be found at once.
func WatchArrivals(s Selector, told func(pid int) bool, found func(pid int)) *Arrivals {
	a := &Arrivals{selector: s, found: found, stop: make(chan struct{})}
	a.events, _ = listenToProcesses(told)
	a.stopped.Add(1)
	go a.watch()
	return a
}

// Told tells whether the kernel tells of processes that come.
func (a *Arrivals) Told() bool { return a.events != nil }

// Close ends it; found is not called any more.
func (a *Arrivals) Close() {
	close(a.stop)
	a.stopped.Wait()
	if a.events != nil {
		a.events.close()
	}
}

func (a *Arrivals) watch() {
	defer a.stopped.Done()
	var came <-chan struct{}
	if a.events != nil {
		came = a.events.came
	}
	known, self := make(map[int]*arrival), os.Getpid()
	newest, all := "", time.Time{}
	for {
		now := time.Now()
		everybody := now.Sub(all) > arrivalsAll
		made := ""
		if came == nil {
			made = newestTask()
		}
		if everybody || came == nil && (made == "" || made != newest) {
			newest = made
			if pids, err := List(); err == nil {
				note(known, pids, now)
			}
		}
		if everybody {
			all = now
			if came != nil {
				a.events.ignore()
			}
		}
		wait := arrivalsAll
		is := a.selector.among()
		for pid, arrived := range known {
			age := now.Sub(arrived.first)
			if everybody || age < arrivalsYoung && !now.Before(arrived.next) {
				arrived.next = now.Add(max(age/4, arrivalsEach/2))
				if came != nil {
					arrived.next = now.Add(arrivalsAll) // if it becomes another one that will be told
				}
				if pid != self && is(pid) {
					arrived.next = now.Add(arrivalsAll)
					a.found(pid)
				}
			}
			if came == nil {
				wait = arrivalsEach
			} else if arrived.next.After(now) {
				wait = min(wait, arrived.next.Sub(now))
			}
		}
		select {
		case <-a.stop:
			return
		case _, open := <-came:
			if a.selector.kind == byNothing {
				time.Sleep(arrivalsEach / 2) // many come on a busy machine: several are looked at together
			}
			if !open {
				came = nil // ask, then
				continue
			}
			pids, lost := a.events.take()
			now = time.Now()
			for pid, changed := range pids {
				known[pid] = &arrival{first: now}
				if !changed { // who has made it may be known, and its children be told of
					known[pid].next = now.Add(arrivalsEach / 2)
				}
			}
			if lost {
				all = time.Time{}
			}
		case <-time.After(wait):
		}
	}
}

// An arrival is when a process was seen first, and when it is to be looked at again: the older it is the
// less likely it is about to become another program.
type arrival struct{ first, next time.Time }

// note keeps of the processes that there are what is known of each.
func note(known map[int]*arrival, pids []int, now time.Time) {
	running := make(map[int]bool, len(pids))
	for _, pid := range pids {
		running[pid] = true
		if known[pid] == nil {
			known[pid] = &arrival{first: now}
		}
	}
	maps.DeleteFunc(known, func(pid int, _ *arrival) bool { return !running[pid] })
}
