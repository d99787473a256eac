package clickhouse

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"footfall/fleet/store"
)

// A catalogue is what is known of builds and their units. What counts never goes away, so that what was read once holds; who
// asks for texts, which do, reads it anew.
type catalogue struct {
	mu     sync.Mutex
	builds map[id]map[id]unit
	kept   int
}

type unit struct {
	hash     store.Hash
	counters int
}

// mostUnits is how many units of builds are kept, of some 80 bytes.
const mostUnits = 1 << 20

// Their tables are made when they are needed, not whenever footfall starts.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil) // no option is wrong
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(1<<30))
		return d
	})
)

// unitsOf returns the units of a build that are kept. It is [store.ErrUnknownBuild] that there is no such build. fresh has
// them be read.
func (s *Store) unitsOf(ctx context.Context, name string, fresh bool) (map[id]unit, error) {
	build := idOf(name)
	s.known.mu.Lock()
	units, known := s.known.builds[build]
	s.known.mu.Unlock()
	if known && !fresh {
		return units, nil
	}
	units = make(map[id]unit)
	if !known {
		there := false
		err := s.db.query(ctx, "SELECT count() > 0 FROM "+s.table("build")+" WHERE "+inIDs("build", []id{build}), func(a *answer) error {
			there = a.u8() != 0
			return nil
		})
		if err == nil && !there {
			err = fmt.Errorf("build %s: %w", name, store.ErrUnknownBuild)
		}
		if err != nil {
			return nil, err
		}
	}
	err := s.db.query(ctx, fmt.Sprintf("SELECT unit, hash, counters FROM %s WHERE unit IN (SELECT unit FROM %s WHERE %s)", s.table("unit"), s.table("member"), inIDs("build", []id{build})), func(a *answer) (err error) {
		var u unit
		key := a.id()
		a.fixed(u.hash[:])
		u.counters, err = a.counters()
		units[key] = u
		return err
	})
	if err != nil {
		return nil, err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.kept > mostUnits || s.known.builds == nil {
		s.known.builds, s.known.kept = make(map[id]map[id]unit), 0
	}
	s.known.kept += len(units) + 1 - len(s.known.builds[build])
	s.known.builds[build] = units // which nobody changes
	return units, nil
}

// putBuild tells that there is a build, unless it is known under that release.
func (s *Store) putBuild(ctx context.Context, name, release string) error {
	build := idOf(name)
	known, last := false, uint64(0)
	is := ""
	err := s.db.query(ctx, "SELECT release, told FROM "+s.table("build")+" WHERE "+inIDs("build", []id{build}), func(a *answer) error {
		r, told := a.text(), a.u64()
		known = true
		if r != "" && told >= last {
			is, last = r, told
		}
		return nil
	})
	if err != nil || known && (release == "" || release == is) {
		return err
	}
	var r rows
	r.fixed(build[:])
	r.text(name)
	r.text(release)
	r.u64(max(uint64(time.Now().UnixNano()), last+1))
	r.end()
	return s.db.insert(ctx, s.table("build"), "build, name, release, told", &r)
}

// addMembers tells that units are those of a build.
func (s *Store) addMembers(ctx context.Context, name string, units []id) error {
	build := idOf(name)
	var r rows
	for _, u := range units {
		r.fixed(build[:])
		r.fixed(u[:])
		r.end()
	}
	return s.db.insert(ctx, s.table("member"), "build, unit", &r)
}

// idsTogether is how many ids are in one query.
const idsTogether = 4000

// existing returns those of the units that there are.
func (s *Store) existing(ctx context.Context, units []id) (map[id]bool, error) {
	there := make(map[id]bool)
	for len(units) > 0 {
		some := units[:min(idsTogether, len(units))]
		units = units[len(some):]
		err := s.db.query(ctx, "SELECT unit FROM "+s.table("unit")+" WHERE "+inIDs("unit", some), func(a *answer) error {
			there[a.id()] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

// PutBuild tells a build and its units.
func (s *Store) PutBuild(ctx context.Context, b *store.Build) error {
	if err := s.open(); err != nil {
		return err
	}
	if err := s.putBuild(ctx, b.ID, b.Release); err != nil {
		return err
	}
	ids := make([]id, len(b.Units))
	hashes := make([]store.Hash, len(b.Units))
	for i := range b.Units {
		hashes[i] = b.Units[i].Hash()
		ids[i] = unitID(hashes[i])
	}
	there, err := s.existing(ctx, ids)
	if err != nil {
		return err
	}
	var r rows
	for i := range b.Units {
		u := &b.Units[i]
		if there[ids[i]] {
			continue
		}
		r.fixed(ids[i][:])
		r.fixed(hashes[i][:])
		r.text(u.Kind)
		r.text(u.Name)
		r.u32(uint32(u.Counters))
		r.bytes(packer().EncodeAll(u.Program, nil))
		r.end()
	}
	if err := s.db.insert(ctx, s.table("unit"), "unit, hash, kind, name, counters, program", &r); err != nil {
		return err
	}
	_, err = s.join(ctx, b.ID, ids)
	return err
}

// join adds units that there are to a build.
func (s *Store) join(ctx context.Context, build string, units []id) (members map[id]unit, err error) {
	members, err = s.unitsOf(ctx, build, true)
	if err != nil {
		return nil, err
	}
	var missing []id
	for _, u := range units {
		if _, is := members[u]; !is {
			missing = append(missing, u)
		}
	}
	return members, s.addMembers(ctx, build, missing)
}

// Announce tells a build and the hashes of its units.
func (s *Store) Announce(ctx context.Context, name, release string, units []store.Hash) (unknown []store.Hash, err error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := s.putBuild(ctx, name, release); err != nil {
		return nil, err
	}
	members, err := s.unitsOf(ctx, name, true)
	if err != nil {
		return nil, err
	}
	var others []store.Hash
	var ids []id
	for _, hash := range units {
		if _, is := members[unitID(hash)]; !is {
			others, ids = append(others, hash), append(ids, unitID(hash))
		}
	}
	there, err := s.existing(ctx, ids)
	if err != nil {
		return nil, err
	}
	var known []id
	for i, hash := range others {
		if there[ids[i]] {
			known = append(known, ids[i])
		} else {
			unknown = append(unknown, hash)
		}
	}
	return unknown, s.addMembers(ctx, name, known)
}
