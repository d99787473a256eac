//go:build linux

package process

import (
	"os"
	"sync"
	"time"
)

// Arrivals finds processes that a selector selects and that come later: within 50 ms, without looking
// at all others each time.
type Arrivals struct {
	selector Selector
	found    func(pid int)
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
// included. For one that is selected for long it is called again and again.
func WatchArrivals(s Selector, found func(pid int)) *Arrivals {
	a := &Arrivals{selector: s, found: found, stop: make(chan struct{})}
	a.stopped.Add(1)
	go a.watch()
	return a
}

// Close ends it; found is not called any more.
func (a *Arrivals) Close() {
	close(a.stop)
	a.stopped.Wait()
}

func (a *Arrivals) watch() {
	defer a.stopped.Done()
	ticker := time.NewTicker(arrivalsEach)
	defer ticker.Stop()
	first := make(map[int]time.Time) // when processes were seen first
	newest, all := "", time.Time{}
	for {
		now := time.Now()
		if latest := newestTask(); latest == "" || latest != newest || now.Sub(all) > arrivalsAll {
			newest = latest
			pids, err := List()
			if err == nil {
				first = seenFirst(first, pids, now)
			}
		}
		everybody := now.Sub(all) > arrivalsAll
		if everybody {
			all = now
		}
		is := a.selector.among()
		for pid, since := range first {
			if (everybody || now.Sub(since) < arrivalsYoung) && is(pid) && pid != os.Getpid() {
				a.found(pid)
			}
		}
		select {
		case <-a.stop:
			return
		case <-ticker.C:
		}
	}
}

// seenFirst keeps of the processes that there are when each was seen first.
func seenFirst(before map[int]time.Time, pids []int, now time.Time) map[int]time.Time {
	after := make(map[int]time.Time, len(pids))
	for _, pid := range pids {
		since, known := before[pid]
		if !known {
			since = now
		}
		after[pid] = since
	}
	return after
}
