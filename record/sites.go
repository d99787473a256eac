//go:build linux

package record

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"footfall/hook/patch"
	"footfall/output"
	"footfall/process"
	"footfall/trace"
)

// sites are functions with room for a jump, to code in the program that records their calls.
type sites struct {
	p         *process.Process
	session   *patch.Session
	time      *recordingTime
	functions *functions // nil: they have no numbers
	shown     map[*patch.EntrySite][]trace.Argument
	numbers   []int32 // of functions, by the ids of sites; -1: none
	converted []trace.Event
	asked     int // functions that were to be recorded in the beginning
}

// openSites records functions, of which there may be none yet: anchor is an address of code
// near which there may be some later. The ones without call-frame information are for chains.
func openSites(t *program, list []TracedFunction, anchor uint64, noCFI []patch.NoCFI) (*sites, error) {
	s := &sites{p: t.p, time: t.time, functions: t.functions, shown: make(map[*patch.EntrySite][]trace.Argument), asked: len(list)}
	set := t.settings
	options := patch.Options{
		Mode: set.mode, Filter: set.filter, RingSize: set.buffer << 20, Newest: set.newest, ChainDepth: set.chainDepth,
		NoCFI: noCFI, Arguments: set.arguments, Follow: set.follow, NotifyLoads: true, Anchor: anchor,
	}
	if s.time != nil { // chains have none
		options.Clock = s.time.sites
	}
	if len(set.threads) > 0 && set.mode != trace.Chains {
		options.Threads = func(thread process.ThreadStatus) bool {
			return set.threads.take(thread.ID, cmp.Or(thread.Name, t.p.Name))
		}
	}
	var err error
	if s.session, err = patch.Open(t.p, s.take(list), options); err != nil {
		return nil, err
	}
	s.number()
	return s, nil
}

func (s *sites) Way() Way { return Sites }

// take returns the sites of functions, and notes what their arguments are called.
func (s *sites) take(list []TracedFunction) []*patch.EntrySite {
	var all []*patch.EntrySite
	for _, f := range list {
		s.shown[f.EntrySite] = f.Shown
		all = append(all, f.EntrySite)
	}
	return all
}

func (s *sites) Add(list []TracedFunction) (int, error) { return s.addWith(list, nil) }

// addWith is Add, with functions without call-frame information for chains.
func (s *sites) addWith(list []TracedFunction, noCFI []patch.NoCFI) (int, error) {
	n, err := s.session.Add(s.take(list), noCFI...)
	s.number()
	return n, err
}

func (s *sites) Switch(list []TracedFunction) (on, off int, err error) {
	on, off, err = s.session.Switch(s.take(list))
	s.number()
	return on, off, err
}

func (s *sites) On() int { return s.session.On() }

func (s *sites) SetFilter(f trace.Filter) error { return s.session.SetFilter(f) }

// number gives numbers to functions that have none, in the order of their addresses.
func (s *sites) number() {
	if s.functions == nil {
		return
	}
	all := s.session.Sites()
	var ids []uint32
	for id := range all {
		if int(id) >= len(s.numbers) || s.numbers[id] < 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(all[a].Addr, all[b].Addr) })
	for _, id := range ids {
		for int(id) >= len(s.numbers) {
			s.numbers = append(s.numbers, -1)
		}
		s.numbers[id] = s.functions.number(s.p, TracedFunction{all[id], s.shown[all[id]]}, len(ids))
	}
}

func (s *sites) Read(give func(process.ThreadStatus, []trace.Event)) (int, error) {
	return s.session.Read(func(thread process.ThreadStatus, events []patch.SiteEvent) { give(thread, s.convert(events)) }), nil
}

// convert returns events with the numbers of functions, until it is called again.
func (s *sites) convert(events []patch.SiteEvent) []trace.Event {
	if len(s.converted) < len(events) {
		s.converted = make([]trace.Event, len(events))
	}
	converted, numbers := s.converted[:len(events)], s.numbers
	clock := *s.time.sites
	n := 0
	dropped := false
	for i := range events {
		e := &events[i]
		if e.ID&patch.WordFlag != 0 {
			if !dropped {
				converted[n] = trace.Event{Time: e.Time, Word: true}
				n++
			}
			continue
		}
		if e.ID&patch.GapFlag != 0 {
			converted[n] = trace.Event{Gap: true, Exit: e.ID&patch.ExitFlag != 0}
			n++
			continue
		}
		id := e.ID & patch.IDMask
		if dropped = int(id) >= len(numbers) || numbers[id] < 0; dropped {
			continue
		}
		converted[n] = trace.Event{
			Time: clock.Nanos(e.Time), Function: uint32(numbers[id]), Stack: e.Stack, Exit: e.ID&patch.ExitFlag != 0,
			NoExit: e.ID&patch.NoExitFlag != 0, Root: e.ID&patch.RootFlag != 0, Whole: e.ID&(patch.WholeFlag|patch.ExitFlag) == patch.WholeFlag,
			Jump: e.ID&(patch.JumpFlag|patch.ExitFlag) == patch.JumpFlag|patch.ExitFlag,
		}
		n++
	}
	return converted[:n]
}

func (s *sites) Counts() (map[int32]uint64, error) {
	s.number() // those, too, of which some could not be switched on
	counts := make(map[int32]uint64)
	for id, n := range s.session.Counts() {
		counts[s.numbers[id]] += n
	}
	return counts, nil
}

func (s *sites) Chains() ([]trace.Chain, error) { return s.session.Chains(), nil }

// chainWay returns how the callers of chains were found.
func (s *sites) chainWay(chains []trace.Chain) patch.ChainWay { return s.session.ChainWay(chains) }

func (s *sites) Maintain() error { return s.session.Recycle() }

func (s *sites) Stop() error { return s.session.SwitchOff() }

func (s *sites) Lost() (l losses) {
	l[dropped], l[placeless] = s.session.Lost()
	l[pointerless], l[exitless] = s.session.Pointerless(), s.session.NoReturns()
	if s.session.Damaged {
		l[damaged] = 1
	}
	return l
}

func (s *sites) Children() (recorded, others int) {
	if !s.session.Follows {
		others = s.session.Children
	}
	return s.session.Followed(), others
}

func (s *sites) Close() error { return s.session.Close() }

// say says what is recorded, and of what not everything is; by says how, if that is not all that
// there is.
func (s *sites) say(by string, stderr io.Writer) {
	skipped := s.session.Skipped
	if n := s.moved(); n > 0 {
		by += fmt.Sprintf(", %d of them by moved instructions", n)
	}
	fmt.Fprintf(stderr, "footfall: process %d (%s): tracing %s%s; switching on took %v\n", s.p.PID, output.Printable(s.p.Name),
		output.Count(s.asked-len(skipped), "function", "functions"), by, s.session.Stopped.Round(10*time.Microsecond))
	n := 0
	for site, why := range skipped {
		if n++; n > 3 {
			fmt.Fprintf(stderr, "footfall: ... and %d more\n", len(skipped)-3)
			break
		}
		fmt.Fprintf(stderr, "footfall: %s is not traced: %s\n", site.Name(), why)
	}
	byReturn, not := s.session.ExitWays()
	if byReturn > 0 {
		fmt.Fprintf(stderr, "footfall: of %s no jump fits at some exit: return addresses are replaced\n", output.Count(byReturn, "function", "functions"))
	}
	if not > 0 {
		fmt.Fprintf(stderr, "footfall: of %s exits cannot be seen, entries are\n", output.Count(not, "function", "functions"))
	}
}

// moved returns how many of the functions have no room.
func (s *sites) moved() (n int) {
	for _, site := range s.session.Sites() {
		if site.Moves() {
			n++
		}
	}
	return n
}

// sayMissing says, at the end, what may be missing.
func (s *sites) sayMissing(stderr io.Writer) {
	if n := s.session.Unanswered; n > 0 {
		fmt.Fprintf(stderr, "footfall: %s loaded or unloaded while footfall was busy: the first calls may be missing\n", output.Count(n, "time libraries were", "times libraries were"))
	}
	late := slices.SortedFunc(maps.Keys(s.session.Late), func(a, b *patch.EntrySite) int {
		return cmp.Or(cmp.Compare(s.session.Late[b], s.session.Late[a]), strings.Compare(a.Name(), b.Name()))
	})
	for n, site := range late {
		if n == 3 {
			fmt.Fprintf(stderr, "footfall: ... and %d more\n", len(late)-n)
			break
		}
		after := s.session.Late[site]
		fmt.Fprintf(stderr, "footfall: %s is traced since %v after the beginning only: earlier calls are missing\n", site.Name(), after.Round(time.Millisecond))
	}
}
