//go:build linux

package patch

import (
	"bytes"
	"debug/elf"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"footfall/binary"
	"footfall/process"
	"footfall/process/target"
)

// Where the compiler has left no room at a function's entry its first instructions are moved:
// a copy of them is run elsewhere, and a jump takes their place.
//
//	site                      stub                        copy (a stub of mode copies)
//	push %r15  --> jmp -->    push id                     push %r15
//	push %r14                 call ... (as at nops)       push %r14
//	push %r13                 ...                         push %r13
//	...        <--            jmp copy           -->      jmp behind the window
//
// A copy is in the island of its stub; there stubs of all modes have one. Copies stay, as stubs
// do, for threads that are within.
//
// Where the first instructions and those behind them lead straight to an exit that has no room
// (binary.Exit.Within), the copy is a stub of that exit, too, and serves one stub:
//
//	lea 1(%rdi),%eax          push id                     lea 1(%rdi),%eax
//	ret                       call ...                    push id; call exit_only ...
//	                          jmp copy           -->      ret

// Moved lists the functions of an image whose first instructions can be moved, as sites, and
// why others' cannot. Some have no name.
func Moved(i *target.Image) (sites []*EntrySite, not map[binary.FunctionSymbol]error, err error) {
	not = make(map[binary.FunctionSymbol]error)
	err = EachMoved(i, func(site *EntrySite, why error) {
		if why != nil {
			not[site.Function] = why
		} else {
			sites = append(sites, site)
		}
	})
	return sites, not, err
}

// EachMoved visits the functions of an image as Moved lists them. One that cannot be moved is a site that cannot be switched on.
func EachMoved(i *target.Image, visit func(site *EntrySite, why error)) error {
	if err := Movable(i); err != nil {
		return err
	}
	finder, err := i.EntryFinder()
	if err != nil {
		return err
	}
	for _, fn := range finder.Functions() {
		if w, err := finder.Window(fn); err != nil {
			visit(Unmoved(i, fn), err)
		} else {
			visit(MovedSite(i, fn, &w), nil)
		}
	}
	return nil
}

// MovedSite is the site of a function whose first instructions can be moved.
func MovedSite(i *target.Image, fn binary.FunctionSymbol, w *binary.EntryWindow) *EntrySite {
	return &EntrySite{Entry: target.Entry{Site: binary.Site{Addr: w.Addr, Function: fn}, Addr: w.Addr + i.Bias, Image: i}, window: w}
}

// Window is what is moved; nil: nothing is.
func (site *EntrySite) Window() *binary.EntryWindow { return site.window }

// Movable tells why instructions of an image are not moved at all; nil if they may be.
func Movable(i *target.Image) error {
	if i.File.Machine != native.machine || native.machine != elf.EM_X86_64 {
		return fmt.Errorf("%s: instructions are moved on x86-64 only: %w", i.Path, ErrNotSupported)
	}
	if _, _, isGo := i.GoCode(); isGo {
		return fmt.Errorf("%s: Go moves stacks and looks up program counters: its instructions are not moved: %w", i.Path, ErrNotSupported)
	}
	return nil
}

// CheckRan tells why [OpenRan] cannot watch the functions of an image in a process, as far as that is seen
// without looking at its code; nil if it may.
func CheckRan(p *process.Process, i *target.Image) error {
	if err := Movable(i); err != nil {
		return err
	}
	return supported(p, &Options{})
}

// Divided lists the functions of an image, divided into blocks.
func Divided(i *target.Image) ([]binary.DividedFunction, error) {
	finder, err := i.EntryFinder()
	if err != nil {
		return nil, err
	}
	return finder.Divide(), nil
}

// Moves tells whether the site's first instructions are moved.
func (site *EntrySite) Moves() bool { return site.window != nil }

// usableWindow compares what is in memory with the file, and notes it. It returns why the
// window cannot be used, "" if it can. Guarded tells whether the process has a shadow stack.
func (s *Session) usableWindow(site *EntrySite, guarded bool) string {
	w := site.window
	code := make([]byte, max(len(w.Code), native.jumpSize))
	switch n, err := s.p.ReadAt(code, int64(site.Addr)); {
	case err != nil && n < max(len(w.Code), native.jumpSize):
		return err.Error()
	case !bytes.HasPrefix(code, w.Code):
		return fmt.Sprintf("somebody has changed the code there: % x", code[:native.jumpSize])
	case guarded && w.Instructions[len(w.Instructions)-1].Kind == binary.MoveCall:
		return "a call in its first instructions cannot be moved where the processor guards return addresses (shadow stack)"
	}
	site.room = max(len(w.Code), native.jumpSize)
	copy(site.old[:], code[:native.jumpSize]) // behind it there may be another site, which is changed
	return ""
}

// PatchedBy returns where another footfall has changed the code of a process, which is to be claimed, and which footfall,
// 0 if that has ended and means the changes to stay ([Ran.Leave]):
// whoever runs the instruction that was there instead of the jump, as a breakpoint of the kernel
// does, would go on in the middle of that. What one has left that was killed is put back.
func PatchedBy(p *process.Process) (sites map[uint64]bool, footfall int, err error) {
	islands, err := findIslands(p)
	if err != nil {
		return nil, 0, err
	}
	if errors.Join(refuseSecond(p, islands), refuseKept(p, islands)) == nil {
		if !slices.ContainsFunc(islands, func(b *island) bool { return b.owner == uint64(os.Getpid()) }) {
			_, err = repair(p, islands)
		}
		return nil, 0, err
	}
	sites = make(map[uint64]bool)
	for _, b := range islands {
		if process.Runs(int(b.owner), b.ownerTicks) {
			footfall = int(b.owner)
		}
		for _, st := range b.stubs {
			if st.patched {
				sites[st.site] = true
			}
		}
	}
	return sites, footfall, nil
}

// Patches tells whether a footfall has changed the code of a process, as far as it is known: one that is
// there, or one that was killed.
func Patches(p *process.Process) bool {
	islands, err := findIslands(p)
	return err != nil && p.Check() == nil || slices.ContainsFunc(islands, func(b *island) bool {
		return slices.ContainsFunc(b.stubs, func(st *stub) bool { return st.patched })
	})
}

// errFar is why first instructions are not moved that could be moved elsewhere.
var errFar = errors.New("its first instructions refer to what is too far from where they are moved")

// addMovedStub returns the stub of a site without room, which may be there, with the copy of its
// first instructions.
func (s *Session) addMovedStub(site *EntrySite, root bool) (*stub, error) {
	if st := s.findStub(site, root); st != nil {
		st.copy = s.findCopy(site, st)
		return st, nil
	}
	err := s.full()
	for _, b := range s.islands {
		const both = 2 // the stub and a copy
		if !reaches(b.addr, site.Addr) || len(b.stubs)+both > b.room {
			continue
		}
		st := &stub{island: b, index: uint32(len(b.stubs)), site: site.Addr, old: site.old, mode: site.mode, root: root, arguments: s.description(site)}
		key := s.copyKey(site, st)
		if i := slices.IndexFunc(b.byKey[key], func(c *stub) bool { return s.isCopy(site, c) }); i >= 0 {
			st.copy = b.byKey[key][i]
			b.add(st)
		} else {
			c := &stub{island: b, index: st.index + 1, site: site.Addr, resume: site.Addr + uint64(len(site.window.Code)), old: site.old, mode: key.mode, arguments: key.arguments}
			m, ok := copyCode(site, c)
			if !ok {
				err = errFar
				continue
			}
			c.fillCopy(site, m)
			st.copy = c
			b.add(st)
			b.add(c)
		}
		st.resume = st.copy.addr()
		return st, nil
	}
	return nil, err
}

// copyKey is that of the copy for a stub of the site.
func (s *Session) copyKey(site *EntrySite, entry *stub) stubKey {
	e := site.exitWithin()
	if e == nil {
		return stubKey{site: site.Addr, mode: copies}
	}
	return stubKey{site: site.Addr, mode: copiesLeaving, arguments: s.exitID(site, e, entry)}
}

// exitWithin is the exit that the copy of the site's first instructions has; nil: none.
func (site *EntrySite) exitWithin() *binary.Exit {
	if i := slices.IndexFunc(site.exits, func(e binary.Exit) bool { return e.Within }); i >= 0 {
		return &site.exits[i]
	}
	return nil
}

// findCopy finds the copy where a stub of the site goes on; nil: that is not there.
func (s *Session) findCopy(site *EntrySite, entry *stub) *stub {
	for _, c := range entry.island.byKey[s.copyKey(site, entry)] {
		if c.addr() == entry.resume && s.isCopy(site, c) {
			return c
		}
	}
	return nil
}

// isCopy tells whether a copy is that of the site's first instructions. It may be that of another
// library, which was at the same place.
func (s *Session) isCopy(site *EntrySite, c *stub) bool {
	want, ok := copyCode(site, c)
	is := c.moved.code
	if c.window == nil { // of an earlier session
		is = make([]byte, len(want.code))
		if _, err := s.p.ReadAt(is, int64(c.addr())); err != nil {
			return false
		}
	}
	if !ok || !bytes.Equal(is, want.code) {
		return false
	}
	if c.window == nil {
		c.fillCopy(site, want)
	}
	return true
}

// fillCopy notes what a copy consists of.
func (c *stub) fillCopy(site *EntrySite, m movedCopy) {
	c.window, c.moved = site.window, m
	if !native.describesAll {
		return
	}
	finder, err := site.Image.ExitFinder() // which has found the window
	switch e := site.exitWithin(); {
	case err != nil:
		c.frames = new(cellRows)
	case c.mode == copiesLeaving:
		c.frames = leaveFrames(finder, e)
	default:
		c.frames = m.frames(site, finder)
	}
}

// copyCode encodes a copy of a site's first instructions. ok is false if it cannot be where it is.
func copyCode(site *EntrySite, c *stub) (m movedCopy, ok bool) {
	if c.mode != copiesLeaving {
		return movedCode(site, c.addr())
	}
	e := site.exitWithin()
	if e == nil {
		return m, false
	}
	exit := &stub{island: c.island, index: c.index, site: site.Addr, mode: site.leaveMode(), arguments: c.arguments, leave: e, bias: site.Image.Bias}
	if !exit.reaches() {
		return m, false
	}
	return movedCopy{exit.code(), e.Starts}, true
}

// A movedCopy is what a copy consists of.
type movedCopy struct {
	code   []byte
	starts []int // of the window's instructions in it
}

// movedCode encodes the copy of a site's first instructions for an address. ok is false if it does
// not fit there.
//
//	jcc rel8    0f 8x rel32
//	jmp rel8    e9 rel32
//	call rel32  push $low; movl $high,4(%rsp); jmp: the function returns to where it always did
func movedCode(site *EntrySite, at uint64) (m movedCopy, ok bool) {
	w, bias := site.window, site.Image.Bias
	ok = true
	put := func(code ...byte) { m.code = append(m.code, code...) }
	rel32 := func(target uint64) {
		d := int64(target - (at + uint64(len(m.code)) + 4))
		ok = ok && d == int64(int32(d))
		m.code = encoding.LittleEndian.AppendUint32(m.code, uint32(d))
	}
	for _, i := range w.Instructions {
		m.starts = append(m.starts, len(m.code))
		raw := w.Code[i.At:i.End]
		switch i.Kind {
		case binary.MoveJump:
			put(0xe9)
			rel32(i.Target + bias)
		case binary.MoveConditional:
			condition := raw[0]
			if condition == 0x0f {
				condition = raw[1]
			}
			put(0x0f, 0x80|condition&0xf)
			rel32(i.Target + bias)
		case binary.MoveCall:
			back := site.Addr + uint64(i.End)
			put(0x68)
			m.code = encoding.LittleEndian.AppendUint32(m.code, uint32(back))
			put(0xc7, 0x44, 0x24, 0x04)
			m.code = encoding.LittleEndian.AppendUint32(m.code, uint32(back>>32))
			put(0xe9)
			rel32(i.Target + bias)
		default:
			put(raw...)
			if i.Relative == 0 {
				continue
			}
			was, is := site.Addr+uint64(i.End), at+uint64(len(m.code))
			d := int64(int32(encoding.LittleEndian.Uint32(w.Code[i.Relative:]))) + int64(was-is)
			ok = ok && math.MinInt32 <= d && d <= math.MaxInt32
			encoding.LittleEndian.PutUint32(m.code[len(m.code)-(i.End-i.Relative):], uint32(d))
		}
	}
	if w.GoesOn() {
		put(0xe9)
		rel32(site.Addr + uint64(len(w.Code)))
	}
	return m, ok && len(m.code) <= stubSize
}

// movedCall is how many bytes of a moved call are in front of the jump and behind the first push.
const movedCall = 5

// frames returns the rows of the copy: those of the addresses from which its instructions came.
func (m *movedCopy) frames(site *EntrySite, finder *binary.ExitFinder) *cellRows {
	c := new(cellRows)
	fill := func(at int, from uint64) frameRow {
		row := frameRow{}
		if r, ok := finder.Frame(from); ok {
			row = frameRowOf(r)
		}
		c.fill(at, row)
		return row
	}
	for n, i := range site.window.Instructions {
		row := fill(m.starts[n], site.Site.Addr+uint64(i.At))
		if i.Kind == binary.MoveCall && row.known {
			c.fill(m.starts[n]+movedCall, row.moved(1))
		}
	}
	if jump := len(m.code) - 5; site.window.GoesOn() {
		fill(jump, site.Site.Addr+uint64(len(site.window.Code)))
	}
	return c
}

// at returns where in the copy a thread goes on that is at an offset of the site; known is
// false if that is not between two instructions.
func (c *stub) at(offset int) (addr uint64, known bool) {
	for n, i := range c.window.Instructions {
		if i.At == offset {
			return c.addr() + uint64(c.moved.starts[n]), true
		}
	}
	return 0, false
}

// BlockSite is the site of a block. One without a window cannot be armed, but it is seen whether
// a thread is within.
func BlockSite(i *target.Image, fn binary.FunctionSymbol, b *binary.Block) *EntrySite {
	site := &EntrySite{window: b.Window, block: true, code: span{b.Addr + i.Bias, b.End + i.Bias}}
	at := b.Addr
	if b.Window != nil { // what has begun before it meets the jump
		at = b.Window.Addr
		site.code.from = at + 1 + i.Bias
	}
	site.Entry = target.Entry{Site: binary.Site{Addr: at, Function: fn}, Addr: at + i.Bias, Image: i}
	return site
}

// Unmoved is a function that [Moved] has left out, as a site that cannot be switched on.
func Unmoved(i *target.Image, fn binary.FunctionSymbol) *EntrySite {
	return &EntrySite{Entry: target.Entry{Site: binary.Site{Addr: fn.Addr, Function: fn}, Addr: fn.Addr + i.Bias, Image: i}}
}

// IsPart tells whether the reason is that it is no function, but a part of one.
func IsPart(why error) bool { return errors.Is(why, binary.ErrPart) }
