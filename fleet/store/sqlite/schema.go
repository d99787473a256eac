package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// migrations make a schema of each version of the one before. What has been released is never changed: what is
// new is appended.
var migrations = []string{`
CREATE TABLE build (
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	release TEXT NOT NULL
);
CREATE TABLE unit (
	id INTEGER PRIMARY KEY,
	hash BLOB NOT NULL UNIQUE,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	counters INTEGER NOT NULL,
	program BLOB NOT NULL -- zstd
);
CREATE TABLE build_unit (
	build INTEGER NOT NULL REFERENCES build,
	unit INTEGER NOT NULL REFERENCES unit,
	PRIMARY KEY (build, unit)
) WITHOUT ROWID;
-- The sets of labels that instances have, as JSON with sorted keys.
CREATE TABLE labels (
	id INTEGER PRIMARY KEY,
	text TEXT NOT NULL UNIQUE
);
CREATE TABLE instance (
	id INTEGER PRIMARY KEY,
	host TEXT NOT NULL,
	boot TEXT NOT NULL,
	pid INTEGER NOT NULL,
	start INTEGER NOT NULL, -- nanoseconds since 1970
	epoch INTEGER NOT NULL,
	build INTEGER NOT NULL REFERENCES build,
	labels INTEGER NOT NULL REFERENCES labels,
	owner TEXT NOT NULL,
	first INTEGER NOT NULL, -- windows, in seconds since 1970
	last INTEGER NOT NULL,
	UNIQUE (host, boot, pid, start, epoch, build, labels)
);
-- Who reported of a build, for ever.
CREATE TABLE reported (
	build INTEGER NOT NULL REFERENCES build,
	host TEXT NOT NULL,
	instances INTEGER NOT NULL,
	first INTEGER NOT NULL, -- windows
	last INTEGER NOT NULL,
	PRIMARY KEY (build, host)
) WITHOUT ROWID;
-- What each instance has reached in a window: the greatest values. Tables with vectors have rows by number: among
-- rows in the order of a key that have long values, SQLite would read these where it looks for a key.
CREATE TABLE usage (
	window INTEGER NOT NULL, -- seconds since 1970
	unit INTEGER NOT NULL REFERENCES unit,
	instance INTEGER NOT NULL REFERENCES instance,
	hits BLOB NOT NULL,
	PRIMARY KEY (window, instance, unit) -- what comes together is together
);
-- Sums of windows of a day that take no more counts.
CREATE TABLE rollup (
	day INTEGER NOT NULL, -- its beginning, in seconds since 1970
	build INTEGER NOT NULL REFERENCES build,
	unit INTEGER NOT NULL REFERENCES unit,
	host TEXT NOT NULL,
	labels INTEGER NOT NULL REFERENCES labels,
	hits BLOB NOT NULL,
	PRIMARY KEY (day, build, unit, host, labels)
);
-- When each counter was seen to count, for ever: vectors of windows.
CREATE TABLE seen (
	build INTEGER NOT NULL REFERENCES build,
	unit INTEGER NOT NULL REFERENCES unit,
	pushed INTEGER NOT NULL, -- 1: in results without a host
	first BLOB NOT NULL,
	last BLOB NOT NULL,
	PRIMARY KEY (build, unit, pushed)
);
CREATE TABLE closed (
	before INTEGER NOT NULL -- windows that began before take no more counts
);
INSERT INTO closed VALUES (0);
`}

// migrate brings the schema to the newest version.
func migrate(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("its schema has version %d, and this footfall knows %d: it was written by a newer one", version, len(migrations))
	}
	for ; version < len(migrations); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, migrations[version]); err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+1))
		}
		if err != nil {
			_ = tx.Rollback()
			return fmt.Errorf("its schema, from version %d: %w", version, err)
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}
