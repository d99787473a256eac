package clickhouse

import (
	"context"
	"fmt"
	"slices"

	"footfall/fleet/store"
)

// TextBytes returns how many bytes texts take. It reads them.
func (s *Store) TextBytes(ctx context.Context) (int64, error) {
	_, n, err := s.texts(ctx)
	return n, err
}

// texts is how many there are, and how many bytes they take.
func (s *Store) texts(ctx context.Context) (n int, bytes int64, err error) {
	return n, bytes, s.db.query(ctx, fmt.Sprintf("SELECT count(), toUInt64(sum(size)) FROM (SELECT any(length(program)) AS size FROM %s WHERE kind = %s GROUP BY unit)", s.table("unit"), quote(store.Text)), func(a *answer) error {
		n, bytes = int(a.u64()), int64(a.u64())
		return nil
	})
}

// forgetTexts has ClickHouse delete those of builds of which nobody has reported since a day, when it likes. Of one that is
// told again meanwhile some build may lack it then, until it is told the next time.
func (s *Store) forgetTexts(ctx context.Context, before uint32) error {
	if before == 0 {
		return nil
	}
	working := false
	if err := s.db.query(ctx, "SELECT 1 FROM system.mutations WHERE NOT is_done AND database = "+quote(s.db.name)+" AND table = "+quote(s.prefix+"unit")+" LIMIT 1", func(a *answer) error {
		working = a.u8() > 0
		return nil
	}); err != nil || working {
		return err
	}
	of := func(old string) string {
		return fmt.Sprintf("(SELECT unit FROM %s WHERE build %s (SELECT build FROM %s GROUP BY build HAVING maxMerge(last) < %d))", s.table("member"), old, s.table("reported"), before)
	}
	var gone []id
	if err := s.db.query(ctx, fmt.Sprintf("SELECT DISTINCT unit FROM %s WHERE kind = %s AND unit IN %s AND unit NOT IN %s", s.table("unit"), quote(store.Text), of("IN"), of("NOT IN")), func(a *answer) error {
		gone = append(gone, a.id())
		return nil
	}); err != nil {
		return err
	}
	for some := range slices.Chunk(gone, idsTogether) {
		if err := s.db.exec(ctx, fmt.Sprintf("ALTER TABLE %s DELETE WHERE %s", s.table("unit"), inIDs("unit", some))); err != nil {
			return err
		}
	}
	return nil
}
