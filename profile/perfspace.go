package profile

import (
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"footfall/formats/perfdata"
)

// A history is what processes had mapped, and what threads were called, at any
// time of a perf.data file.
type history struct {
	files     map[[2]string]*codeFile // by path and build ID
	opens     opener                  // with whose rights
	processes map[int][]spaceAt       // by ascending time
	threads   map[int][]threadAt
	buildIDs  map[string]string        // by path
	count     uint32                   // of spaces and of threads' names
	kernel    perfdata.SidebandEvent   // where it is, if it is told
	made      []perfdata.SidebandEvent // code that the kernel made
}

// A spaceAt is the code of a process from a time on.
type spaceAt struct {
	from uint64
	id   uint32
	code *region
}

// A threadAt is the name of a thread from a time on.
type threadAt struct {
	from uint64
	id   uint32
	name string
}

// A region is a node of a tree of what is mapped, by addresses. Trees are never
// changed: what differs is new, and the rest is shared between processes and
// times. Random priorities keep them balanced.
type region struct {
	start, end  uint64
	of          *mapped
	priority    uint32
	left, right *region
}

// A mapped is a part of a file that was mapped.
type mapped struct {
	start, offset uint64
	file          *codeFile
}

// at returns what is mapped at the address, nil if there is nothing.
func (r *region) at(addr uint64) *mapped {
	for r != nil {
		switch {
		case addr < r.start:
			r = r.left
		case addr >= r.end:
			r = r.right
		default:
			return r.of
		}
	}
	return nil
}

// with returns the tree with another mapping, in place of what was there.
func (r *region) with(start, end uint64, of *mapped) *region {
	low, rest := r.split(start)
	_, high := rest.split(end)
	return join(join(low, &region{start: start, end: end, of: of, priority: rand.Uint32()}), high)
}

// split returns what lies below the address, and the rest.
func (r *region) split(addr uint64) (low, high *region) {
	if r == nil {
		return nil, nil
	}
	own := *r
	switch {
	case addr <= r.start:
		low, own.left = r.left.split(addr)
		return low, &own
	case addr >= r.end:
		own.right, high = r.right.split(addr)
		return &own, high
	}
	other := own
	own.end, own.right = addr, nil
	other.start, other.left = addr, nil
	return &own, &other
}

// join returns both trees, of which the second lies above the first.
func join(low, high *region) *region {
	switch {
	case low == nil:
		return high
	case high == nil:
		return low
	case low.priority > high.priority:
		own := *low
		own.right = join(low.right, high)
		return &own
	}
	own := *high
	own.left = join(low, high.left)
	return &own
}

// kernelMap begins what perf calls the kernel's code; a symbol follows, whose address
// is the offset.
const kernelMap = "[kernel.kallsyms]"

// newHistory puts the changes of a file, which are in no order, together.
// Their files are opened by opens.
func newHistory(changes []perfdata.SidebandEvent, ids []perfdata.BuildID, opens opener) *history {
	h := &history{
		opens: opens, files: make(map[[2]string]*codeFile), processes: make(map[int][]spaceAt), threads: make(map[int][]threadAt), buildIDs: make(map[string]string),
	}
	for _, id := range ids {
		if !id.Kernel {
			h.buildIDs[id.Path] = id.ID
		}
	}
	slices.SortStableFunc(changes, func(a, b perfdata.SidebandEvent) int {
		switch {
		case a.Time < b.Time:
			return -1
		case a.Time > b.Time:
			return 1
		}
		return 0
	})
	for _, c := range changes {
		h.apply(c)
	}
	return h
}

func (h *history) apply(c perfdata.SidebandEvent) {
	switch c.Kind {
	case perfdata.Mapped:
		if c.Kernel || c.PID == -1 {
			if h.kernel.Len == 0 && strings.HasPrefix(c.Path, kernelMap) {
				h.kernel = c
			}
			return
		}
		of := &mapped{c.Addr, c.Offset, h.file(c)}
		h.remember(c.PID, c.Time, latest(h.processes[c.PID]).with(c.Addr, c.Addr+c.Len, of))
	case perfdata.Executed:
		h.remember(c.PID, c.Time, nil)
		h.name(c.TID, c.Time, c.Name)
	case perfdata.Named:
		h.name(c.TID, c.Time, c.Name)
	case perfdata.Forked:
		if c.PID != c.Parent {
			var code *region
			if !c.Fresh {
				code = latest(h.processes[c.Parent])
			}
			h.remember(c.PID, c.Time, code)
		}
		if parent := h.threads[c.ParentTID]; len(parent) > 0 {
			h.name(c.TID, c.Time, parent[len(parent)-1].name)
		}
	case perfdata.KernelCode:
		h.made = append(h.made, c)
	}
}

func latest(all []spaceAt) *region {
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].code
}

// remember sets the code of a process from a time on.
func (h *history) remember(pid int, from uint64, code *region) {
	all := h.processes[pid]
	if n := len(all); n > 0 && all[n-1].from == from {
		all[n-1].code = code
		return
	}
	h.count++
	h.processes[pid] = append(all, spaceAt{from, h.count, code})
}

func (h *history) name(tid int, from uint64, name string) {
	all := h.threads[tid]
	if n := len(all); n > 0 && (all[n-1].from == from || all[n-1].name == name) {
		all[n-1].name = name
		return
	}
	h.count++
	h.threads[tid] = append(all, threadAt{from, h.count, name})
}

// space returns what a process had mapped at a time.
func (h *history) space(pid int, time uint64) spaceAt {
	all := h.processes[pid]
	i := sort.Search(len(all), func(i int) bool { return all[i].from > time })
	if i == 0 {
		return spaceAt{}
	}
	return all[i-1]
}

// thread returns what a thread was called at a time.
func (h *history) thread(tid int, time uint64) threadAt {
	all := h.threads[tid]
	i := sort.Search(len(all), func(i int) bool { return all[i].from > time })
	if i == 0 {
		return threadAt{}
	}
	return all[i-1]
}
