//go:build linux

package patch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"footfall/process"
	"footfall/process/target"
)

// Exceptions go on through the stubs if libgcc, where the process has it, has been told
// how, by a call of its __register_frame.

// An unwinder is the code of a process that throws exceptions.
type unwinder struct {
	path     string
	register uint64 // __register_frame; 0: it is not GCC's, or there is none
	find     uint64 // _Unwind_Find_FDE; 0: there is none
	readOnly uint64 // an address that cannot be written to as soon as it is relocated; 0: none
}

// An unwinding is what is known of an image.
type unwinding struct {
	unwinder         *unwinder // nil: no symbol says that it has one
	searched, throws bool      // whether its code does, by the bytes of it
}

// unwindsAlways is for tests: the unwinder is told in all modes. Otherwise it is where
// return addresses are replaced, so that it has to: libgcc before GCC 13 looks up what it was
// told under a lock, which a handler of a signal might wait for that came just then. So where
// it is not, a profiler's chain that begins in our code ends there.
var unwindsAlways bool

// relocationPatience is how long a library may be taken for one that is not relocated.
const relocationPatience = time.Second

// registerUnwinding tells the unwinder about the islands, in a thread where that cannot
// wait for itself. A libgcc that comes again after it was unloaded knows nothing of what
// the one before was told. One that is not relocated yet cannot be told: s.untold is set.
func (s *Session) registerUnwinding() error {
	u, untold, err := s.untoldTables()
	if err != nil || len(untold) == 0 {
		s.untold = time.Time{}
		return err
	}
	if !u.relocated(s.p) {
		if s.untold.IsZero() {
			s.untold = time.Now()
		}
		if time.Since(s.untold) < relocationPatience {
			return nil
		}
	}
	s.untold = time.Time{}
	if _, waits := s.Noticed(); waits {
		if err := s.tellInNotice(u, untold); !errors.Is(err, errNoNotice) {
			return err
		}
	}
	return s.tell(u, untold, s.p.CallSafely)
}

// A registration is what the unwinder is to be told once.
type registration struct {
	table   []byte
	at      uint64 // where it goes
	code    uint64 // what it is about begins there
	known   uint64 // the unwinder that was told
	knownBy func(unwinder uint64) error
}

// registrations returns those of islands and return stubs.
func (s *Session) registrations() (all []registration) {
	for _, b := range s.islands {
		all = append(all, registration{s.tableOf(b), b.addr + unwindAt, b.addr + stubsAt, b.unwinder, func(u uint64) error {
			b.unwinder = u
			return b.setOwner(s.p, b.owner, b.ownerTicks)
		}})
	}
	for i := range s.returns {
		r := &s.returns[i]
		all = append(all, registration{r.unwindTable(), r.table(), r.addr, r.unwinder, func(u uint64) error {
			r.unwinder = u
			_, err := s.p.WriteAt(binary.LittleEndian.AppendUint64(nil, u), int64(r.told()))
			return err
		}})
	}
	return all
}

// tableOf returns that of an island.
func (s *Session) tableOf(b *island) []byte {
	if native.describesAll {
		return frameTable(b.addr, stubsAt-codeAt+uint64(b.room)*stubSize)
	}
	return native.unwindTable(b.addr+stubsAt, uint64(b.room)*stubSize, s.shadow)
}

// describeIslands writes what the tables of islands refer to.
func (s *Session) describeIslands() error {
	for _, b := range s.islands {
		if !native.describesAll {
			return nil
		}
		if err := errors.Join(b.describeTrampoline(s.p), b.describeStubs(s.p, b.stubs)); err != nil {
			return err
		}
	}
	return nil
}

// untoldTables returns those that the unwinder does not know.
func (s *Session) untoldTables() (u *unwinder, untold []registration, err error) {
	if len(s.islands) == 0 {
		return nil, nil, nil
	}
	if u, err = s.findUnwinder(); err != nil {
		return nil, nil, err
	}
	for _, r := range s.registrations() {
		switch {
		case r.known == u.register:
		case u.register != 0:
			untold = append(untold, r)
		default:
			if err := r.knownBy(0); err != nil {
				return nil, nil, err
			}
		}
	}
	return u, untold, nil
}

// tell calls the unwinder for each table. It looks up an address there at once, as it
// takes memory when it does so first, which a handler of a signal could not have.
func (s *Session) tell(u *unwinder, untold []registration, call func(function, trap uint64, args ...uint64) error) error {
	if err := s.describeIslands(); err != nil {
		return err
	}
	for _, r := range untold {
		table := append(r.table, native.breakpoint...)
		if _, err := s.p.WriteAt(table, int64(r.at)); err != nil {
			return err
		}
		trap := r.at + uint64(len(r.table))
		err := call(u.register, trap, r.at)
		if err == nil && u.find != 0 {
			err = call(u.find, trap, r.code, s.islands[0].addr+basesAt)
		}
		if err != nil {
			return fmt.Errorf("process %d: tell its unwinder of exceptions about the stubs: %w; trace entries only", s.p.PID, err)
		}
		if err := r.knownBy(u.register); err != nil {
			return err
		}
	}
	return nil
}

// errNoNotice is returned if no thread waits for our answer to a notice any more.
var errNoNotice = errors.New("no thread waits")

// tellInNotice lets the thread call that waits for our answer to a notice: there the
// dynamic linker holds no lock of the memory allocator. If the unwinder is not relocated
// the notice is answered, and the thread stopped again when it is.
func (s *Session) tellInNotice(u *unwinder, untold []registration) error {
	return held(s.p, func(h *process.Held) error {
		tid := s.notifier.waiting(h)
		if tid == 0 {
			return errNoNotice
		}
		if err := h.ReleaseOthers(tid); err != nil {
			return err
		}
		if !u.relocated(s.p) {
			notice, _ := s.Noticed()
			s.Answer(notice)
			if err := h.RunUntil(tid, relocationPatience, func() bool { return u.relocated(s.p) }); err != nil {
				return err
			}
		}
		return s.tell(u, untold, func(function, trap uint64, args ...uint64) error {
			return h.Call(tid, function, trap, time.Second, args...)
		})
	})
}

// tellWhenRelocated tells an unwinder that has been loaded just now, before it is used.
// It is the last that is done about a notice, and may answer it.
func (s *Session) tellWhenRelocated() error {
	if _, waits := s.Noticed(); !waits || s.untold.IsZero() {
		return nil
	}
	u, untold, err := s.untoldTables()
	if err != nil || len(untold) == 0 {
		return err
	}
	err = s.tellInNotice(u, untold)
	if errors.Is(err, errNoNotice) || errors.Is(err, process.ErrStuck) {
		return nil // Recycle tries again
	}
	s.untold = time.Time{}
	return err
}

// waiting returns the thread that is in a notice, 0 if there is none. It is one at most:
// it has the linker's lock.
func (n *notifier) waiting(h *process.Held) (tid int) {
	code := n.stub.island.addr + codeAt
	from, to := code+native.offset(noticeRoutine), code+native.offset(noticeEnd)
	for _, tid := range h.Threads() {
		if pc, err := h.PC(tid); err == nil && from <= pc && pc < to {
			return tid
		}
	}
	return 0
}

// findUnwinder returns that of the process; one with no address if nothing in it throws
// exceptions. Other unwinders have a function of libgcc's name which does something
// else.
func (s *Session) findUnwinder() (*unwinder, error) {
	maps, _, err := s.p.Maps()
	if err != nil {
		return nil, err
	}
	images := slices.DeleteFunc(s.p.Images(maps), func(i *process.MappedFile) bool { return process.IsOurs(i.Path) })
	before := s.unwinders
	s.unwinders = make(map[string]*unwinding)
	var found *unwinder
	for _, i := range images {
		u := before[i.Key()]
		if u == nil {
			u = &unwinding{unwinder: unwinderOf(s.p, i)}
		}
		s.unwinders[i.Key()] = u
		if found == nil || u.unwinder != nil && u.unwinder.register == 0 { // wherever it lies
			found = cmp.Or(u.unwinder, found)
		}
	}
	if found != nil {
		if found.register == 0 {
			return nil, fmt.Errorf("process %d: %s has an unwinder for exceptions that is not GCC's: trace entries only: %w", s.p.PID, found.path, ErrNotSupported)
		}
		return found, nil
	}
	for _, i := range images {
		u := s.unwinders[i.Key()]
		if !u.searched {
			u.searched, u.throws = true, throws(s.p, i)
		}
		if u.throws {
			return nil, fmt.Errorf("process %d: %s has an unwinder for exceptions, but no symbol that says where: trace entries only: %w", s.p.PID, i.Path, ErrNotSupported)
		}
	}
	return new(unwinder), nil
}

// unwinderOf returns the one that an image has, nil if it has none.
func unwinderOf(p *process.Process, of *process.MappedFile) *unwinder {
	i, err := target.Open(p, of)
	if err != nil {
		return nil
	}
	defer i.Close()
	for _, name := range []string{"_Unwind_RaiseException", "_Unwind_Resume"} { // AddressSanitizer has the first, which calls the real one
		if _, has := i.Symbol(name); !has {
			return nil
		}
	}
	u := &unwinder{path: i.Path}
	if _, gcc := i.Symbol("__register_frame_table"); gcc {
		u.register, _ = i.Symbol("__register_frame")
		u.find, _ = i.Symbol("_Unwind_Find_FDE")
	}
	const page = 4096
	if addr, size, ok := i.File.ReadOnlyAfterRelocation(); ok && (addr+size)&^(page-1) > addr&^(page-1) {
		u.readOnly = addr&^(page-1) + i.Bias
	}
	return u
}

// relocated tells whether its functions can be called. Where nothing shows that, they
// can.
func (u *unwinder) relocated(p *process.Process) bool {
	if u.readOnly == 0 {
		return true
	}
	maps, _, err := p.Maps()
	if err != nil {
		return false
	}
	m := maps.At(u.readOnly)
	return m != nil && !m.Write
}

// Throws tells whether there is the name of C++'s exceptions, or Rust's, in the
// code of the image.
func Throws(p *process.Process, i *target.Image) bool { return throws(p, i.Mapped) }

func throws(p *process.Process, i *process.MappedFile) bool {
	names := [][]byte{[]byte("\x00++CCUNG"), []byte("\x00++CGNLC"), []byte("MOZ\x00RUST")}
	const most = 1 << 20
	b := make([]byte, most)
	for _, part := range i.Parts {
		for at := part.Start; part.Exec && at < part.End; at += most - 8 {
			n, err := p.ReadAt(b[:min(most, part.End-at)], int64(at))
			if err != nil {
				break
			}
			if slices.ContainsFunc(names, func(name []byte) bool { return bytes.Contains(b[:n], name) }) {
				return true
			}
		}
	}
	return false
}
