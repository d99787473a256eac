package trace

import "slices"

// A thread's calls are within each other as they are on the stack. Coroutines and
// handlers of signals may have stacks of their own: where one is left for another
// is seen from the addresses, which are far apart, and from exits, which only fit
// the stack of their entry.

// A stack has calls within each other.
type stack struct {
	Thread // as outputs see it
	open   []FunctionCall
	left   uint64 // when the thread went on elsewhere
}

// A thread is on one of its stacks.
type thread struct {
	*stack
	others []*stack // those with calls that have not ended, the one left last at the end
	spare  []*stack // those without
	made   int
	last   uint64
	lossy  bool // events are being dropped
	jumped bool // the innermost call has just ended by a jump
}

// gap notes that events were dropped, from here on or up to here: exits of the calls
// that are open may be among them.
func (t *thread) gap(begins bool) {
	t.lossy = begins
	t.stack.doubt()
	for _, s := range t.others {
		s.doubt()
	}
}

func (s *stack) doubt() {
	for i := range s.open {
		s.open[i].unsure = true
	}
}

const (
	// nearStack is how far from the calls that are known a stack is surely
	// continued; farStack is how large a frame may be.
	nearStack  = 16 << 10
	farStack   = 256 << 10
	mostStacks = 1000
)

// has tells whether the call that an exit ends is on the stack.
func (s *stack) has(function, at uint32) bool {
	for i := len(s.open) - 1; i >= 0 && s.open[i].stack <= at; i-- {
		if s.open[i].stack == at && s.open[i].Function == function {
			return true
		}
	}
	return false
}

// near tells whether an address is about where the calls of the stack are.
func (s *stack) near(at uint32) bool {
	n := len(s.open)
	return n > 0 && int64(at) >= int64(s.open[n-1].stack)-nearStack && int64(at) <= int64(s.open[0].stack)+nearStack
}

// findStack finds the stack of an entry.
func (b *Builder) findStack(t *thread, at uint32) {
	n := len(t.open)
	if n == 0 && len(t.others) == 0 || t.near(at) {
		return
	}
	for i := len(t.others) - 1; i >= 0; i-- {
		if t.others[i].near(at) {
			b.resume(t, i)
			return
		}
	}
	if n == 0 {
		return
	}
	if top := t.open[n-1].stack; at < top && top-at <= farStack {
		return
	}
	b.park(t)
	if k := len(t.spare); k > 0 {
		t.stack, t.spare = t.spare[k-1], t.spare[:k-1]
		return
	}
	t.made++
	made := &stack{Thread: t.stack.Thread}
	made.Stack = t.made
	t.stack = made
}

// resumeFor goes to the stack of an exit, if there is one.
func (b *Builder) resumeFor(t *thread, function, at uint32) bool {
	for i := len(t.others) - 1; i >= 0; i-- {
		if t.others[i].has(function, at) {
			b.resume(t, i)
			return true
		}
	}
	return false
}

// park leaves the stack that the thread is on.
func (b *Builder) park(t *thread) {
	t.left = t.last
	if len(t.open) == 0 {
		t.spare = append(t.spare, t.stack)
		return
	}
	t.others = append(t.others, t.stack)
	if len(t.others) > mostStacks {
		current := t.stack
		t.stack, t.others = t.others[0], slices.Delete(t.others, 0, 1)
		b.leaveTo(t, 0, unseen)
		t.spare = append(t.spare, t.stack)
		t.stack = current
	}
}

// resume goes back to another stack. The time meanwhile is not that of its calls
// themselves.
func (b *Builder) resume(t *thread, i int) {
	back := t.others[i]
	t.others = slices.Delete(t.others, i, i+1)
	b.park(t)
	t.stack = back
	back.open[len(back.open)-1].inner += t.last - min(t.last, back.left)
}

// leaveAll ends the calls on all stacks.
func (b *Builder) leaveAll(t *thread) {
	if t.jumped {
		b.settleJump(t, false)
	}
	b.leaveTo(t, 0, unseen)
	for _, other := range t.others {
		t.stack = other
		b.leaveTo(t, 0, unseen)
	}
	t.others = nil
}

// leaveStack goes back from a stack without calls to the one before.
func (b *Builder) leaveStack(t *thread) {
	if n := len(t.others); len(t.open) == 0 && n > 0 {
		b.resume(t, n-1)
	}
}
