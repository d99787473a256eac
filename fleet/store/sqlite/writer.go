package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"footfall/fleet/store"
)

// A writer writes within a transaction. It keeps what it has read or written, which nobody else
// changes.
type writer struct {
	*connection
	broken error // the transaction cannot go on
	builds map[string]int64
	units  map[store.Hash]unitRow
	member map[[2]int64]bool // build and unit
	closed int64             // windows before take no more counts; -1: not known
	usage  map[usageKey][]uint64
	seen   map[seenKey]*seenRow
	kept   int      // counters in usage and seen
	hits   []uint64 // of what is being pushed
	// textsBefore is before which day texts were forgotten last, since we began.
	textsBefore int64
}

type unitRow struct {
	id       int64
	counters int
	text     bool
}

type usageKey struct{ window, unit, instance int64 }

type seenKey struct {
	build, unit int64
	pushed      bool
}

type seenRow struct{ first, last []uint64 }

// keep is how many counters are kept in memory, of 8 bytes.
const keep = 8 << 20

func newWriter(c *connection) *writer {
	w := &writer{connection: c}
	w.forget()
	return w
}

// forget is called when what it keeps may not be what is on disk.
func (w *writer) forget() {
	w.builds = make(map[string]int64)
	w.units = make(map[store.Hash]unitRow)
	w.member = make(map[[2]int64]bool)
	w.closed = -1
	w.forgetVectors()
}

func (w *writer) forgetVectors() {
	w.usage = make(map[usageKey][]uint64)
	w.seen = make(map[seenKey]*seenRow)
	w.kept = 0
}

// savepoint calls do, and takes back what it has done if it fails.
func (w *writer) savepoint(do func() error) error {
	if _, w.broken = w.exec("SAVEPOINT batch"); w.broken != nil {
		return w.broken
	}
	err := do()
	if err != nil {
		_, w.broken = w.exec("ROLLBACK TO batch")
		w.forget()
	}
	if w.broken == nil {
		_, w.broken = w.exec("RELEASE batch")
	}
	return errors.Join(err, w.broken)
}

// idOf returns the row with the values, which it makes if there is none.
func (w *writer) idOf(insert, find string, args ...any) (id int64, err error) {
	if err = w.one([]any{&id}, find, args...); !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	result, err := w.exec(insert, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (w *writer) putBuild(b *store.Build) (id int64, err error) {
	if id, err = w.build(b.ID); errors.Is(err, store.ErrUnknownBuild) {
		var result sql.Result
		if result, err = w.exec("INSERT INTO build (name, release) VALUES (?, ?)", b.ID, b.Release); err != nil {
			return 0, err
		}
		if id, err = result.LastInsertId(); err == nil {
			w.builds[b.ID] = id
		}
		return id, err
	}
	if err == nil && b.Release != "" {
		_, err = w.exec("UPDATE build SET release = ? WHERE id = ? AND release <> ?", b.Release, id, b.Release)
	}
	return id, err
}

// build returns the row of a build.
func (w *writer) build(name string) (id int64, err error) {
	if id, known := w.builds[name]; known {
		return id, nil
	}
	err = w.one([]any{&id}, "SELECT id FROM build WHERE name = ?", name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, fmt.Errorf("build %s: %w", name, store.ErrUnknownBuild)
	case err == nil:
		w.builds[name] = id
	}
	return id, err
}

// putUnit adds a unit, whose program is packed, to a build.
func (w *writer) putUnit(build int64, u *store.Unit, packed []byte) error {
	hash := u.Hash()
	id := int64(0)
	err := w.one([]any{&id}, "SELECT id FROM unit WHERE hash = ?", hash[:])
	if errors.Is(err, sql.ErrNoRows) {
		var result sql.Result
		result, err = w.exec("INSERT INTO unit (hash, kind, name, counters, program) VALUES (?, ?, ?, ?, ?)", hash[:], u.Kind, u.Name, u.Counters, packed)
		if err == nil {
			id, err = result.LastInsertId()
		}
	}
	if err == nil {
		_, err = w.exec("INSERT OR IGNORE INTO build_unit VALUES (?, ?)", build, id)
	}
	return err
}

// announce adds those of the units that are known to a build, and returns the others.
func (w *writer) announce(build int64, units []store.Hash) (unknown []store.Hash, err error) {
	for _, hash := range units {
		_, err := w.unit(build, hash)
		if !errors.Is(err, store.ErrUnknownUnit) {
			if err != nil {
				return nil, err
			}
			continue
		}
		id := int64(0)
		err = w.one([]any{&id}, "SELECT id FROM unit WHERE hash = ?", hash[:])
		switch {
		case errors.Is(err, sql.ErrNoRows):
			unknown = append(unknown, hash)
			continue
		case err == nil:
			_, err = w.exec("INSERT OR IGNORE INTO build_unit VALUES (?, ?)", build, id)
		}
		if err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

// unit returns a unit of a build.
func (w *writer) unit(build int64, hash store.Hash) (u unitRow, err error) {
	u, known := w.units[hash]
	if !known {
		if err = w.one([]any{&u.id, &u.counters, &u.text}, "SELECT id, counters, kind = '"+store.Text+"' FROM unit WHERE hash = ?", hash[:]); err == nil {
			w.units[hash] = u
		}
	}
	if key := [2]int64{build, u.id}; err == nil && !w.member[key] {
		one := 0
		if err = w.one([]any{&one}, "SELECT 1 FROM build_unit WHERE build = ? AND unit = ?", build, u.id); err == nil {
			w.member[key] = true
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("unit %x: %w", hash[:8], store.ErrUnknownUnit)
	}
	return u, err
}

// push adds a batch.
func (w *writer) push(b *store.Batch) error {
	build, err := w.build(b.Build)
	if err != nil {
		return err
	}
	instance, window, isNew, err := w.instance(build, b)
	if err != nil {
		return err
	}
	if w.closed < 0 {
		if err := w.one([]any{&w.closed}, "SELECT before FROM closed"); err != nil {
			return err
		}
	}
	if window < w.closed {
		return fmt.Errorf("window %v: %w", time.Unix(window, 0).UTC(), store.ErrClosed)
	}
	for i := range b.Usage {
		u, err := w.unit(build, b.Usage[i].Unit)
		if err != nil {
			return err
		}
		packed := b.Usage[i].Vector()
		if packed.Counters() != u.counters {
			return fmt.Errorf("unit %x: %d counters, where it has %d: %w", b.Usage[i].Unit[:8], packed.Counters(), u.counters, store.ErrLength)
		}
		if u.text { // which goes one day, with all that would name it
			continue
		}
		w.hits = packed.Into(w.hits)
		if err := w.reached(usageKey{window, u.id, instance}, w.hits, isNew); err != nil {
			return err
		}
		if err := w.saw(seenKey{build, u.id, b.Instance.Host == ""}, w.hits, window); err != nil {
			return err
		}
	}
	if w.kept > keep {
		w.forgetVectors()
	}
	return nil
}

// instance returns the row of who has sent a batch, and the window that it is of, which is noted. isNew is that
// nothing is there of this window.
func (w *writer) instance(build int64, b *store.Batch) (id, window int64, isNew bool, err error) {
	in := &b.Instance
	text := labelsText(in.Labels)
	labels, err := w.idOf("INSERT INTO labels (text) VALUES (?)", "SELECT id FROM labels WHERE text = ?", text)
	if err != nil {
		return 0, 0, false, err
	}
	window = b.Window.Unix()
	key := []any{in.Host, in.Boot, in.PID, in.Start.UnixNano(), in.Epoch, build, labels}
	owner, first, last := "", int64(0), int64(0)
	err = w.one([]any{&id, &owner, &first, &last}, "SELECT id, owner, first, last FROM instance WHERE host = ? AND boot = ? AND pid = ? AND start = ? AND epoch = ? AND build = ? AND labels = ?", key...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		result, err := w.exec("INSERT INTO instance (host, boot, pid, start, epoch, build, labels, owner, first, last) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			append(key, in.Owner, window, window)...)
		if err == nil {
			id, err = result.LastInsertId()
		}
		if err == nil {
			err = w.reported(build, in.Host, 1, window)
		}
		return id, window, true, err
	case err != nil:
		return 0, 0, false, err
	case owner != in.Owner:
		return 0, 0, false, fmt.Errorf("process %d of %s: %w", in.PID, in.Host, store.ErrOwner)
	case b.Once:
		return id, first, false, nil
	case window < first || window > last:
		if _, err = w.exec("UPDATE instance SET first = ?, last = ? WHERE id = ?", min(first, window), max(last, window), id); err == nil {
			err = w.reported(build, in.Host, 0, window)
		}
	}
	return id, window, window < first || window > last, err
}

// reported notes that a host has reported of a build in a window, and how many of its instances are new.
func (w *writer) reported(build int64, host string, instances int, window int64) error {
	_, err := w.exec(`INSERT INTO reported VALUES (?1, ?2, ?3, ?4, ?4)
		ON CONFLICT DO UPDATE SET instances = instances + ?3, first = min(first, ?4), last = max(last, ?4)`, build, host, instances, window)
	return err
}

// reached notes what an instance has reached in a window, of which there is nothing yet if isNew is set.
func (w *writer) reached(key usageKey, hits []uint64, isNew bool) error {
	kept, known := w.usage[key]
	if !known {
		var packed []byte
		err := error(sql.ErrNoRows)
		if !isNew {
			err = w.one([]any{&packed}, "SELECT hits FROM usage WHERE window = ? AND unit = ? AND instance = ?", key.window, key.unit, key.instance)
		}
		switch {
		case err == nil:
			if kept, err = store.UnpackVector(packed, len(hits)); err != nil {
				return fmt.Errorf("usage %v: %w", key, err)
			}
			known = true
		case errors.Is(err, sql.ErrNoRows):
			kept = make([]uint64, len(hits))
		default:
			return err
		}
		w.usage[key] = kept
		w.kept += len(kept)
	}
	if !store.Greatest(kept, hits) && known {
		return nil
	}
	_, err := w.exec("INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET hits = excluded.hits", key.window, key.unit, key.instance, store.PackVector(kept))
	return err
}

// saw notes which counters of a unit were seen to count in a window.
func (w *writer) saw(key seenKey, hits []uint64, window int64) error {
	row := w.seen[key]
	if row == nil {
		row = &seenRow{make([]uint64, len(hits)), make([]uint64, len(hits))}
		var first, last []byte
		err := w.one([]any{&first, &last}, "SELECT first, last FROM seen WHERE build = ? AND unit = ? AND pushed = ?", key.build, key.unit, key.pushed)
		switch {
		case err == nil:
			if err = errors.Join(store.UnpackTimes(first, row.first), store.UnpackTimes(last, row.last)); err != nil {
				return err
			}
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		w.seen[key] = row
		w.kept += 2 * len(hits)
	}
	if !store.Note(row.first, row.last, hits, uint64(window)) {
		return nil
	}
	_, err := w.exec("INSERT INTO seen VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET first = excluded.first, last = excluded.last", key.build, key.unit, key.pushed, store.PackTimes(row.first), store.PackTimes(row.last))
	return err
}
