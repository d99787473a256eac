package trace

import "slices"

// A thread's calls are within each other as they are on the stack. Coroutines and
// handlers of signals may have stacks of their own: where one is left for another
// is seen from the addresses, which are far apart, and from exits, which only fit
// the stack of their entry.

// A stack has calls within each other.
type stack struct {
	Thread // as outputs see it
	open   []Call
	left   uint64 // when the thread went on elsewhere
}

// A thread is on one of its stacks.
type thread struct {
	*stack
	others []*stack // those with calls that have not ended, the one left last at the end
	spare  []*stack // those without
	made   int
	last   uint64
}

const (
	// nearStack is how far from the calls that are known a stack is surely
	// continued; farStack is how large a frame may be.
	nearStack  = 16 << 10
	farStack   = 256 << 10
	mostStacks = 1000
)

// has tells whether the call that the event ends is on the stack.
func (s *stack) has(e Event) bool {
	for i := len(s.open) - 1; i >= 0 && s.open[i].stack <= e.Stack; i-- {
		if s.open[i].stack == e.Stack && s.open[i].Function == e.Function {
			return true
		}
	}
	return false
}

// near tells whether the event is about where the calls of the stack are.
func (s *stack) near(e Event) bool {
	n := len(s.open)
	return n > 0 && int64(e.Stack) >= int64(s.open[n-1].stack)-nearStack && int64(e.Stack) <= int64(s.open[0].stack)+nearStack
}

// findStack finds the stack of an entry.
func (b *Builder) findStack(t *thread, e Event) {
	n := len(t.open)
	if n == 0 && len(t.others) == 0 || t.near(e) {
		return
	}
	for i := len(t.others) - 1; i >= 0; i-- {
		if t.others[i].near(e) {
			b.resume(t, i, e.Time)
			return
		}
	}
	if n == 0 {
		return
	}
	if top := t.open[n-1].stack; e.Stack < top && top-e.Stack <= farStack {
		return
	}
	b.park(t, e.Time)
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
func (b *Builder) resumeFor(t *thread, e Event) bool {
	for i := len(t.others) - 1; i >= 0; i-- {
		if t.others[i].has(e) {
			b.resume(t, i, e.Time)
			return true
		}
	}
	return false
}

// park leaves the stack that the thread is on.
func (b *Builder) park(t *thread, time uint64) {
	t.left = time
	if len(t.open) == 0 {
		t.spare = append(t.spare, t.stack)
		return
	}
	t.others = append(t.others, t.stack)
	if len(t.others) > mostStacks {
		current := t.stack
		t.stack, t.others = t.others[0], slices.Delete(t.others, 0, 1)
		b.leaveTo(t, 0, time, true)
		t.spare = append(t.spare, t.stack)
		t.stack = current
	}
}

// resume goes back to another stack. The time meanwhile is not that of its calls
// themselves.
func (b *Builder) resume(t *thread, i int, time uint64) {
	back := t.others[i]
	t.others = slices.Delete(t.others, i, i+1)
	b.park(t, time)
	t.stack = back
	back.open[len(back.open)-1].inner += time - min(time, back.left)
}

// leaveAll ends the calls on all stacks.
func (b *Builder) leaveAll(t *thread) {
	b.leaveTo(t, 0, t.last, true)
	for _, other := range t.others {
		t.stack = other
		b.leaveTo(t, 0, t.last, true)
	}
	t.others = nil
}

// leaveStack goes back from a stack without calls to the one before.
func (b *Builder) leaveStack(t *thread, time uint64) {
	if n := len(t.others); len(t.open) == 0 && n > 0 {
		b.resume(t, n-1, time)
	}
}
