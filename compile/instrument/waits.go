package instrument

import "bytes"

// An increment waits for the last one of the same counter if that is still on its way to memory, for
// some seven cycles. It need not where the counter's address is in a register: processors that
// rename memory (Intel's since Golden Cove, AMD's Zen 2) hand the value on at once if both find it by the same
// register and distance, but not by a distance from rip. That takes one instruction more; so it
// is for increments that can come again so soon: at the entry of small functions that call nothing, and
// at calls in small loops, unless what they call is known to be larger. A wrong guess costs time only.
//
// The smallest of these are as fast uncounted since they lie within one line of the cache of decoded
// instructions, 64 bytes; with an increment in it such a loop or function, which begins anywhere at a
// multiple of 16, crosses two, for a cycle each round. At a multiple of 32 it does not. Small functions
// that call themselves are somewhat longer, and as often run from line to line as their place has it; from
// the beginning of one they need the fewest.

// soon is how many instructions a processor begins in that time, at most; tiny is how many are within
// such a line together with an increment.
const (
	soon = 40
	tiny = 10
)

// A waiting is what waits: functions at their entry, by name, and calls, by the offset of their line.
// apart is where lines are that align what is tiny or calls itself, with the power of two that they are to align by.
type waiting struct {
	entries map[string]bool
	calls   map[int]bool
	apart   map[int]int
}

func (w *waiting) any() bool { return len(w.entries)+len(w.calls) > 0 }

// waiting returns what waits in src.
func (s *survey) waiting(src []byte) waiting {
	w := &waiter{survey: s, align: -1, waiting: waiting{make(map[string]bool), make(map[int]bool), make(map[int]int)}}
	for r := (reader{src: src}); r.next(); {
		line := r.line()
		switch {
		case len(line) < 3 || line[0] == '#':
		case line[0] != '\t':
			w.label(line)
		case line[1] == '.':
			if bytes.HasPrefix(line, []byte("\t.size\t")) {
				w.end()
			} else if alignsBy16(line) {
				w.align = r.start
			}
		default:
			w.instruction(line, r.start)
		}
	}
	return w.waiting
}

// A waiter goes through functions.
type waiter struct {
	*survey
	waiting
	names  []string // of the function; none if it calls another
	entry  []byte   // the first of its names
	itself bool     // it calls itself
	n      int      // instructions since the function's label
	align  int      // the line that aligns what comes, -1: none
	first  int      // that of the function
	// The last labels, and the last calls.
	labels       [8]label
	recent       [8]recentCall
	seen, called int // how many there were
}

// A label is a local one before instruction n. The line at align aligns it, -1: none.
type label struct {
	name  []byte
	n     int
	align int
}

// A recentCall is instruction n.
type recentCall struct{ n, at int }

// label sees a line that is not indented.
func (w *waiter) label(line []byte) {
	name, n := symbol(line)
	if n == len(line) || line[n] != ':' {
		return
	}
	if w.functions[string(name)] {
		if w.n > 0 {
			w.end()
		}
		if len(w.names) == 0 {
			w.first, w.entry = w.align, name
		}
		w.names = append(w.names, string(name))
		return
	}
	w.labels[w.seen%len(w.labels)] = label{name, w.n, w.align}
	w.seen++
}

func (w *waiter) instruction(line []byte, at int) {
	w.n++
	w.align = -1
	word := line[1:]
	switch {
	case word[0] == 'j':
		name, n := symbol(trimLeft(word[wordEnd(word):]))
		if n > 0 && name[0] == '.' {
			w.jump(name)
		} else {
			w.names = nil // a tail call, or a switch
		}
	case bytes.HasPrefix(word, []byte("ret")):
		w.seen = 0 // what follows and jumps back is seldom a loop
	case bytes.HasPrefix(word, []byte("call")):
		w.names = nil
		if callee, n := symbol(trimLeft(word[wordEnd(word):])); n > 0 && bytes.Equal(callee, w.entry) {
			w.itself = true
		}
		w.recent[w.called%len(w.recent)] = recentCall{w.n, at}
		w.called++
	}
}

// jump closes a loop if it is to one of the last labels.
func (w *waiter) jump(name []byte) {
	if w.called == 0 {
		return
	}
	for _, l := range w.labels[:min(w.seen, len(w.labels))] {
		if w.n-l.n > soon || !bytes.Equal(l.name, name) {
			continue
		}
		for _, c := range w.recent[:min(w.called, len(w.recent))] {
			if c.n > l.n {
				w.calls[c.at] = true
				if w.n-l.n <= tiny {
					w.setApart(l.align, 5)
				}
			}
		}
	}
}

// end ends a function.
func (w *waiter) end() {
	if w.n > 0 && w.n <= soon {
		for _, name := range w.names {
			w.entries[name] = true
			if w.n <= tiny {
				w.setApart(w.first, 5)
			}
		}
		if w.itself {
			w.setApart(w.first, 6)
		}
	}
	w.names, w.entry, w.itself, w.n, w.seen, w.called = nil, nil, false, 0, 0, 0
}

// setApart has a line align by a power of two, -1: there is none.
func (w *waiter) setApart(line, power int) {
	if line >= 0 {
		w.apart[line] = max(w.apart[line], power)
	}
}

// alignsBy16 tells whether a line is that by which compilers align functions and loops.
func alignsBy16(line []byte) bool {
	by, is := bytes.CutPrefix(line, []byte("\t.p2align"))
	by = trimLeft(by)
	return is && len(by) > 0 && by[0] == '4' && (len(by) == 1 || by[1] == ',')
}
