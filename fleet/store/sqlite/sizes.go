package sqlite

import (
	"context"
	"database/sql"
	"time"

	"footfall/fleet/store"
)

// Sizes returns how much the store has. It reads all of the tables' rows, though not their vectors.
func (s *Store) Sizes(ctx context.Context) (z store.Sizes, err error) {
	err = s.reading(ctx, func(tx *sql.Tx) error {
		at := func(to *time.Time) sql.Scanner { return (*seconds)(to) }
		for _, part := range []struct {
			query string
			to    []any
		}{
			{"SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", []any{&z.Bytes}},
			{"SELECT COUNT(*) FROM build", []any{&z.Builds}},
			{"SELECT COUNT(*), IFNULL(SUM(LENGTH(program)), 0) FROM unit WHERE kind <> '" + store.Text + "'", []any{&z.Units, &z.ProgramBytes}},
			{ofTexts, []any{&z.Texts, &z.TextBytes}},
			{"SELECT COUNT(*) FROM instance", []any{&z.Instances}},
			{"SELECT COUNT(DISTINCT window), MIN(window), MAX(window), IFNULL(SUM(LENGTH(hits)), 0) FROM usage", []any{&z.Windows, at(&z.FirstWindow), at(&z.LastWindow), &z.UsageBytes}},
			{"SELECT COUNT(DISTINCT day), MIN(day), MAX(day), IFNULL(SUM(LENGTH(hits)), 0) FROM rollup", []any{&z.Days, at(&z.FirstDay), at(&z.LastDay), &z.DayBytes}},
			{"SELECT IFNULL(SUM(LENGTH(first) + LENGTH(last)), 0) FROM seen", []any{&z.SeenBytes}},
			{"SELECT NULLIF(before, 0) FROM closed", []any{at(&z.Closed)}},
		} {
			if err := tx.QueryRowContext(ctx, part.query).Scan(part.to...); err != nil {
				return err
			}
		}
		return nil
	})
	return z, err
}

// ofTexts asks how many texts there are, and how many bytes they take.
const ofTexts = "SELECT COUNT(*), IFNULL(SUM(LENGTH(program)), 0) FROM unit WHERE kind = '" + store.Text + "'"

// TextBytes returns how many bytes texts take.
func (s *Store) TextBytes(ctx context.Context) (n int64, err error) {
	texts := 0
	err = s.db.QueryRowContext(ctx, ofTexts).Scan(&texts, &n)
	return n, err
}

// seconds is a time as columns have it, NULL is none.
type seconds time.Time

func (t *seconds) Scan(v any) error {
	if n, ok := v.(int64); ok {
		*t = seconds(time.Unix(n, 0))
	}
	return nil
}
