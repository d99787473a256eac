package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"footfall/fleet/store"
)

// A push is a batch to be written.
type push struct {
	batch *store.Batch
	usage []store.Vector // what it has of each unit

	build    id
	units    map[id]unit
	instance id
	claim    *claim
	labels   id
	window   uint32
	err      error // it is left out
}

// A told is what has been told to ClickHouse, so that it need not be again. Only the writer uses it. Others may have
// told more; what is told twice does no harm.
type told struct {
	owners   map[id]*claim // of instances
	labels   map[id]bool
	times    toldTimes
	reported map[reportKey]*period
	closed   uint32 // windows before took no more counts when that was last asked
}

// A claim is whose an instance is.
type claim struct {
	told   uint64 // nanoseconds since 1970
	owner  string
	window uint32 // the first
	rows   bool   // there are some
	month  uint32 // the last for which there is one
	// reported is that it was told, since we began, that it has reported.
	reported bool
}

type reportKey struct {
	build id
	host  string
}

type period struct{ first, last uint32 }

// What is kept of these at most. A claim takes some 150 bytes.
const (
	mostClaims   = 1 << 19
	mostReported = 1 << 19
)

func (t *told) forget() {
	t.owners = make(map[id]*claim)
	t.labels = make(map[id]bool)
	t.reported = make(map[reportKey]*period)
	t.times.forget()
}

// never is the first time of what was not seen: the least of times holds.
const never = math.MaxUint32

// Push adds a batch, and returns when ClickHouse has it.
func (s *Store) Push(ctx context.Context, b *store.Batch) error {
	if err := s.open(); err != nil {
		return err
	}
	return s.pushes.Do(ctx, newPush(b))
}

func newPush(b *store.Batch) *push {
	p := &push{batch: b, usage: make([]store.Vector, len(b.Usage))}
	for i := range b.Usage {
		p.usage[i] = b.Usage[i].Vector()
	}
	return p
}

// together is how many batches are in one insert, at most.
const together = 4096

// gathering is how long those who push wait for others, if there were any before: an insert costs ClickHouse some 10 ms of a
// processor, with what merging its files takes later, however little it is.
var gathering = store.Patience{Pause: 20 * time.Millisecond, Between: 300 * time.Millisecond}

// write writes what is pushed, as long as the store is open: what waits together, since each insert costs ClickHouse the
// files of a part, however little it is.
func (s *Store) write() {
	defer close(s.ended)
	for waiting := s.pushes.Take(gathering); waiting != nil; waiting = s.pushes.Take(gathering) {
		all := make([]*push, len(waiting))
		for i, w := range waiting {
			all[i] = w.What
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := s.writeTogether(ctx, all)
		cancel()
		for i, p := range all {
			if p.err == nil {
				p.err = err
			}
			waiting[i].Answer(p.err)
		}
	}
}

// writeTogether writes batches, or says in each why it cannot be. After an error nothing is known of what was written.
func (s *Store) writeTogether(ctx context.Context, all []*push) error {
	for _, p := range all {
		if p.err = s.look(ctx, p); p.err != nil && !refused(p.err) {
			return p.err
		}
	}
	err := s.claims(ctx, all)
	if err != nil {
		return err
	}
	w := written{reached: s.spare, times: make([]rows, len(s.nodes))}
	s.spare = make([]rows, len(s.nodes)) // of what fails something may be on its way yet
	for _, p := range all {
		if p.err == nil && p.window < s.told.closed {
			p.err = closedError(p.window)
		}
		if p.err == nil && err == nil {
			err = s.add(p, &w)
		}
	}
	if err == nil {
		err = s.send(ctx, &w)
	}
	if err != nil {
		s.told.forget() // of what was told some is not there
		return err
	}
	for n := range w.reached {
		s.spare[n].b = w.reached[n].b[:0]
	}
	// What is there by now is in the sums of a day that is closed later. Of one that has been closed meanwhile it is not
	// known.
	limits, err := s.limits(ctx)
	if err != nil {
		return err
	}
	s.told.closed = limits.closed
	for _, p := range all {
		if p.err == nil && p.window < limits.closed {
			p.err = closedError(p.window)
		}
	}
	return nil
}

func closedError(window uint32) error {
	return fmt.Errorf("window %v: %w", time.Unix(int64(window), 0).UTC(), store.ErrClosed)
}

var errWindow = errors.New("a time from 1970 to 2106 was expected")

// refused tells whether an error is one of a batch, whenever it is sent.
func refused(err error) bool {
	for _, of := range []error{store.ErrUnknownBuild, store.ErrUnknownUnit, store.ErrLength, store.ErrOwner, store.ErrClosed, errWindow} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// look finds the build of a batch, and sees whether its units are those of that.
func (s *Store) look(ctx context.Context, p *push) (err error) {
	b := p.batch
	if at := b.Window.Unix(); at <= 0 || at >= never {
		return fmt.Errorf("window %v: %w", b.Window.UTC(), errWindow)
	}
	p.window = uint32(b.Window.Unix())
	p.build = idOf(b.Build)
	if p.units, err = s.unitsOf(ctx, b.Build, false); err != nil {
		return err
	}
	for again := false; ; again = true {
		unknown := store.Hash{}
		for i := range b.Usage {
			hash := b.Usage[i].Unit
			u, is := p.units[unitID(hash)]
			switch {
			case !is || u.hash != hash:
				unknown = hash
			case p.usage[i].Counters() != u.counters:
				return fmt.Errorf("unit %x: %d counters, where it has %d: %w", hash[:8], p.usage[i].Counters(), u.counters, store.ErrLength)
			}
		}
		if unknown == (store.Hash{}) {
			break
		}
		if again {
			return fmt.Errorf("unit %x: %w", unknown[:8], store.ErrUnknownUnit)
		}
		if p.units, err = s.unitsOf(ctx, b.Build, true); err != nil { // others may have told it
			return err
		}
	}
	text := textOf(b.Instance.Labels)
	in := &b.Instance
	p.labels = idOf(text)
	p.instance = idOf(fmt.Sprintf("%q %q %d %d %d %x %s", in.Host, in.Boot, in.PID, in.Start.UnixNano(), in.Epoch, p.build, text))
	return nil
}

// claims finds out whose the instances of batches are, and in which window those are that count once. Who comes first
// owns an instance; of two that come at the same moment, by two servers, both may count this time.
func (s *Store) claims(ctx context.Context, all []*push) error {
	if len(s.told.owners) > mostClaims {
		s.told.owners = make(map[id]*claim)
	}
	var ask []id
	for _, p := range all {
		if p.err == nil && s.told.owners[p.instance] == nil {
			ask = append(ask, p.instance)
		}
	}
	if len(ask) > 0 {
		if err := s.readClaims(ctx, ask); err != nil {
			return err
		}
	}
	for _, p := range all {
		if p.err != nil {
			continue
		}
		in := &p.batch.Instance
		p.claim = s.told.owners[p.instance]
		if p.claim == nil {
			p.claim = &claim{told: uint64(time.Now().UnixNano()), owner: in.Owner, window: p.window}
			s.told.owners[p.instance] = p.claim
		}
		if p.claim.owner != in.Owner {
			p.err = fmt.Errorf("process %d of %s: %w", in.PID, in.Host, store.ErrOwner)
		}
		if p.batch.Once {
			p.window = p.claim.window
		}
	}
	return nil
}

func (s *Store) readClaims(ctx context.Context, instances []id) error {
	return s.db.query(ctx, "SELECT instance, told, owner, window FROM "+s.table("instance")+" WHERE "+inIDs("instance", instances), func(a *answer) error {
		instance, told, owner, window := a.id(), a.u64(), a.text(), a.u32()
		if a.err != nil {
			return nil
		}
		c := s.told.owners[instance]
		if c == nil {
			c = &claim{told: told, owner: owner, window: window, rows: true}
			s.told.owners[instance] = c
		}
		if told < c.told || told == c.told && owner < c.owner {
			c.told, c.owner = told, owner
		}
		c.window, c.month = min(c.window, window), max(c.month, window/month)
		return nil
	})
}

// reachedColumns are those of table reached, in the order in which rows have them.
const reachedColumns = "build, unit, window, instance, once, host, labels, hits"

// A written is rows of batches, by table, and those of counts by node.
type written struct {
	instances, labels, reported rows
	reached, times              []rows
}

// add adds the rows of a batch.
func (s *Store) add(p *push, w *written) error {
	in := &p.batch.Instance
	if c := p.claim; !c.rows || p.window/month > c.month {
		c.rows, c.month = true, p.window/month
		w.instances.fixed(p.instance[:])
		w.instances.u64(c.told)
		w.instances.text(c.owner)
		w.instances.u32(p.window)
		w.instances.end()
	}
	if !s.told.labels[p.labels] {
		s.told.labels[p.labels] = true
		w.labels.fixed(p.labels[:])
		names, values := sorted(in.Labels)
		w.labels.texts(names)
		w.labels.texts(values)
		w.labels.end()
	}
	once := uint8(0)
	if p.batch.Once {
		once = 1
	}
	for i := range p.usage {
		unit := unitID(p.batch.Usage[i].Unit)
		r := &w.reached[s.shard(unit)]
		r.fixed(p.build[:])
		r.fixed(unit[:])
		r.u32(p.window)
		r.fixed(p.instance[:])
		r.u8(once)
		r.text(in.Host)
		r.fixed(p.labels[:])
		r.bytes(p.usage[i].Bytes())
		r.end()
		if err := s.told.times.see(timesKey{p.build, unit, in.Host == ""}, p.usage[i], p.window, &w.times[s.shard(unit)]); err != nil {
			return err
		}
	}
	key := reportKey{p.build, in.Host}
	of := s.told.reported[key]
	if of == nil {
		if len(s.told.reported) > mostReported {
			s.told.reported = make(map[reportKey]*period)
		}
		of = &period{never, 0}
		s.told.reported[key] = of
	}
	if p.claim.reported && p.window >= of.first && p.window <= of.last {
		return nil
	}
	p.claim.reported = true
	of.first, of.last = min(of.first, p.window), max(of.last, p.window)
	w.reported.fixed(p.build[:])
	w.reported.text(in.Host)
	w.reported.fixed(p.instance[:])
	w.reported.u32(p.window)
	w.reported.end()
	return nil
}

// send writes rows. That somebody has reported comes last: without counts it would say that nothing ran.
func (s *Store) send(ctx context.Context, w *written) error {
	var sending sync.WaitGroup
	var mu sync.Mutex
	var failed error
	to := func(db *database, table, columns string, r *rows) {
		sending.Go(func() {
			if err := db.insert(ctx, s.table(table), columns, r); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	to(s.db, "instance", "instance, told, owner, window", &w.instances)
	for n, db := range s.nodes {
		to(db, "labels", "labels, names, values", &w.labels)
		to(db, "reached", reachedColumns, &w.reached[n])
		to(db, "times", timesColumns, &w.times[n])
	}
	sending.Wait()
	if failed != nil {
		return failed
	}
	return s.db.insert(ctx, s.table("reported_in"), "build, host, instance, window", &w.reported)
}
