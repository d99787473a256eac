package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"footfall/fleet/store"
)

const secondsOfDay = 24 * 60 * 60

// A sumKey is what windows are added up by.
type sumKey struct {
	day, build, unit, labels int64
	host                     string
}

// expire makes sums of windows before rolled and forgets those of days before forgotten.
func (w *writer) expire(rolled, forgotten int64) error {
	defer w.forget() // of what is kept some is no more
	if err := w.rollUp(rolled); err != nil {
		return err
	}
	if _, err := w.exec("UPDATE closed SET before = ? WHERE before < ?", rolled, rolled); err != nil {
		return err
	}
	for _, forget := range []string{
		"DELETE FROM rollup WHERE day < ?",
		"DELETE FROM instance WHERE last < ? AND id NOT IN (SELECT instance FROM usage)",
	} {
		if _, err := w.exec(forget, forgotten); err != nil {
			return err
		}
	}
	return w.forgetTexts(forgotten / secondsOfDay * secondsOfDay)
}

// forgetTexts forgets those of builds of which nobody has reported since a day, once for each day: it looks at all that
// those builds have.
func (w *writer) forgetTexts(before int64) error {
	if before <= w.textsBefore {
		return nil
	}
	w.textsBefore = before
	gone, err := w.exec("DELETE FROM build_unit WHERE build IN (SELECT build FROM reported GROUP BY build HAVING MAX(last) < ?) AND unit IN (SELECT id FROM unit WHERE kind = ?)", before, store.Text)
	if err != nil {
		return err
	}
	if n, err := gone.RowsAffected(); err != nil || n == 0 {
		return err
	}
	_, err = w.exec("DELETE FROM unit WHERE kind = ? AND id NOT IN (SELECT unit FROM build_unit)", store.Text)
	return err
}

// rollUp goes through the windows day by day and unit by unit, so that memory has the sums of one.
func (w *writer) rollUp(before int64) error {
	rows, err := w.query(`SELECT usage.window, usage.unit, instance.build, instance.host, instance.labels, unit.counters, usage.hits
		FROM usage JOIN instance ON instance.id = usage.instance JOIN unit ON unit.id = usage.unit
		WHERE usage.window < ? ORDER BY usage.window / ?, usage.unit`, before, secondsOfDay)
	if err != nil {
		return err
	}
	sums := make(map[sumKey][]uint64)
	var all []sumKey // in order
	for rows.Next() {
		var window, counters int64
		var key sumKey
		var packed []byte
		if err = rows.Scan(&window, &key.unit, &key.build, &key.host, &key.labels, &counters, &packed); err != nil {
			break
		}
		key.day = window - window%secondsOfDay
		var hits []uint64
		if hits, err = store.UnpackVector(packed, int(counters)); err != nil {
			err = fmt.Errorf("usage of window %d, unit %d: %w", window, key.unit, err)
			break
		}
		if sums[key] == nil {
			sums[key] = make([]uint64, counters)
			all = append(all, key)
		}
		store.Add(sums[key], hits)
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, key := range all {
		if err := w.addToRollup(key, sums[key]); err != nil {
			return err
		}
	}
	_, err = w.exec("DELETE FROM usage WHERE window < ?", before)
	return err
}

func (w *writer) addToRollup(key sumKey, hits []uint64) error {
	var packed []byte
	err := w.one([]any{&packed}, "SELECT hits FROM rollup WHERE day = ? AND build = ? AND unit = ? AND host = ? AND labels = ?", key.day, key.build, key.unit, key.host, key.labels)
	switch {
	case err == nil:
		before, err := store.UnpackVector(packed, len(hits))
		if err != nil {
			return err
		}
		store.Add(hits, before)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	_, err = w.exec("INSERT INTO rollup VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET hits = excluded.hits", key.day, key.build, key.unit, key.host, key.labels, store.PackVector(hits))
	return err
}
