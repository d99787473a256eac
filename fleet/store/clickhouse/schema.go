package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// What is told again lies in tables as often as it was told until ClickHouse merges rows, whenever it likes. So keys have
// all that tells rows apart, and questions group by them and merge what they find: an answer is the same whether rows have
// been merged, or how often they have been told.
//
// Vectors are packed ([store.PackVector], [store.PackTimes]): to ClickHouse they are strings, and it is us who merge them.
// Versions 1 and 2 had states of its aggregate functions, which views made of what came in, into tables whose names ended
// in _in: each counter was an object of its own to ClickHouse, whatever was done with it.
//
// ids are the first 16 bytes of SHA-256. Times are seconds since 1970.

// week and month are how many seconds of windows, and of days, are dropped together.
const (
	week  = 7 * 24 * 60 * 60
	month = 4 * week
)

// A migration makes a schema of the version before: by statements that do no harm if they are done again, then by what may
// be done again, too, and by two at the same time. $ is what names of tables begin with, @ what tables that last are created
// with.
type migration struct {
	statements []string
	then       func(*Store, context.Context, *database) error // nil: nothing
}

// migrations are those of each version. What has been released is never changed: what is new is appended.
var migrations = []migration{{statements: []string{
	"CREATE TABLE IF NOT EXISTS `$build` (build FixedString(16), name String, release String, told UInt64) ENGINE = ReplacingMergeTree ORDER BY (build, told, release) @",
	"CREATE TABLE IF NOT EXISTS `$unit` (unit FixedString(16), hash FixedString(32), kind String, name String, counters UInt32, program String) ENGINE = ReplacingMergeTree ORDER BY unit @",
	"CREATE TABLE IF NOT EXISTS `$member` (build FixedString(16), unit FixedString(16)) ENGINE = ReplacingMergeTree ORDER BY (build, unit) @",
	"CREATE TABLE IF NOT EXISTS `$labels` (labels FixedString(16), names Array(String), values Array(String)) ENGINE = ReplacingMergeTree ORDER BY labels @",
	// Whose an instance is: of several the first that was told. In each month in which it counts there is a row.
	fmt.Sprintf("CREATE TABLE IF NOT EXISTS `$instance` (instance FixedString(16), told UInt64, owner String, window UInt32) ENGINE = ReplacingMergeTree PARTITION BY intDiv(window, %d) ORDER BY (instance, told, owner, window) @", month),
	// Who reported of a build, for ever.
	"CREATE TABLE IF NOT EXISTS `$reported` (build FixedString(16), host String, instances AggregateFunction(uniqExact, FixedString(16)), first AggregateFunction(min, UInt32), last AggregateFunction(max, UInt32)) ENGINE = AggregatingMergeTree ORDER BY (build, host) @",
	"CREATE TABLE IF NOT EXISTS `$reported_in` (build FixedString(16), host String, instance FixedString(16), window UInt32) ENGINE = Null",
	"CREATE MATERIALIZED VIEW IF NOT EXISTS `$reported_mv` TO `$reported` AS SELECT build, host, uniqExactState(instance) AS instances, minState(window) AS first, maxState(window) AS last FROM `$reported_in` GROUP BY build, host",
	// What each instance has reached in a window. Of those that count once (once = 1) the least window holds.
	fmt.Sprintf("CREATE TABLE IF NOT EXISTS `$usage` (build FixedString(16), unit FixedString(16), window UInt32, instance FixedString(16), once UInt8, host String, labels FixedString(16), hits AggregateFunction(maxForEach, Array(UInt64))) ENGINE = AggregatingMergeTree PARTITION BY intDiv(window, %d) ORDER BY (build, unit, window, instance, once, host, labels) @", week),
	"CREATE TABLE IF NOT EXISTS `$usage_in` (build FixedString(16), unit FixedString(16), window UInt32, instance FixedString(16), once UInt8, host String, labels FixedString(16), v Array(UInt64)) ENGINE = Null",
	"CREATE MATERIALIZED VIEW IF NOT EXISTS `$usage_mv` TO `$usage` AS SELECT build, unit, window, instance, once, host, labels, maxForEachState(v) AS hits FROM `$usage_in` GROUP BY build, unit, window, instance, once, host, labels",
	// Sums of the windows of a day: made again they are the same, or greater.
	fmt.Sprintf("CREATE TABLE IF NOT EXISTS `$rollup` (build FixedString(16), unit FixedString(16), day UInt32, host String, labels FixedString(16), hits AggregateFunction(maxForEach, Array(UInt64))) ENGINE = AggregatingMergeTree PARTITION BY intDiv(day, %d) ORDER BY (build, unit, day, host, labels) @", month),
	// When each counter was seen to count, for ever: the first and the last window. Of results without a host apart.
	"CREATE TABLE IF NOT EXISTS `$seen` (build FixedString(16), unit FixedString(16), pushed UInt8, first AggregateFunction(minForEach, Array(UInt32)), last AggregateFunction(maxForEach, Array(UInt32))) ENGINE = AggregatingMergeTree ORDER BY (build, unit, pushed) @",
	"CREATE TABLE IF NOT EXISTS `$seen_in` (build FixedString(16), unit FixedString(16), pushed UInt8, f Array(UInt32), l Array(UInt32)) ENGINE = Null",
	"CREATE MATERIALIZED VIEW IF NOT EXISTS `$seen_mv` TO `$seen` AS SELECT build, unit, pushed, minForEachState(f) AS first, maxForEachState(l) AS last FROM `$seen_in` GROUP BY build, unit, pushed",
	// Windows before "closed" take no more counts, those before "rolled" are in rollup, whose days before "forgotten" are
	// no more. The greatest holds.
	"CREATE TABLE IF NOT EXISTS `$limits` (what String, at UInt32) ENGINE = ReplacingMergeTree ORDER BY (what, at) @",
}}, {statements: []string{
	// Which of the servers of a store this one is, from 0 on, and how many there are.
	"CREATE TABLE IF NOT EXISTS `$node` (number UInt32, nodes UInt32) ENGINE = ReplacingMergeTree ORDER BY (number, nodes) @",
}}, {statements: []string{
	// What each instance has reached in a window, as often as it told something else: of each counter the greatest holds. Of
	// those that count once (once = 1) the least window holds. To the key its hash stands for the vector.
	fmt.Sprintf("CREATE TABLE IF NOT EXISTS `$reached` (build FixedString(16), unit FixedString(16), window UInt32, instance FixedString(16), once UInt8, host String, labels FixedString(16), hits String) ENGINE = ReplacingMergeTree PARTITION BY intDiv(window, %d) ORDER BY (build, unit, window, instance, once, host, labels, cityHash64(hits)) @", week),
	// Sums of the windows of a day: made again they are the same, or greater.
	fmt.Sprintf("CREATE TABLE IF NOT EXISTS `$sums` (build FixedString(16), unit FixedString(16), day UInt32, host String, labels FixedString(16), hits String) ENGINE = ReplacingMergeTree PARTITION BY intDiv(day, %d) ORDER BY (build, unit, day, host, labels, cityHash64(hits)) @", month),
	// When each counter was seen to count, for ever: the first and the last window. Of results without a host apart. See times.go.
	fmt.Sprintf("CREATE TABLE IF NOT EXISTS `$times` (build FixedString(16), unit FixedString(16), pushed UInt8, writer FixedString(16), version UInt64, told DateTime DEFAULT now(), first String, last String) ENGINE = ReplacingMergeTree(version) PARTITION BY intDiv(toUInt32(told), %d) ORDER BY (build, unit, pushed, writer) @", week),
}, then: (*Store).packStates}}

// versionTable has the versions of the schema; a store has it last, so it is what tells that there is one.
const versionTable = "schema"

// prefix is what the names of a project's tables begin with. No name of a table has two underlines.
func prefix(project string) string {
	if project == "" {
		return ""
	}
	return project + "__"
}

// migrate brings the schema of a server to the newest version. Others may do the same at the same time.
func (s *Store) migrate(ctx context.Context, db *database) error {
	version, err := s.version(ctx, db)
	if err != nil {
		return err
	}
	lasting, err := db.lasting(ctx)
	if err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		if err := s.apply(ctx, db, version, lasting); err != nil {
			return fmt.Errorf("its schema, from version %d: %w", version, err)
		}
	}
	return nil
}

// apply makes the schema of a server be of the version after one.
func (s *Store) apply(ctx context.Context, db *database, version int, lasting string) error {
	create := fmt.Sprintf("CREATE TABLE IF NOT EXISTS `$%s` (version UInt32, told UInt64) ENGINE = ReplacingMergeTree ORDER BY version @", versionTable)
	for _, statement := range append([]string{create}, migrations[version].statements...) {
		if err := db.exec(ctx, strings.NewReplacer("$", s.prefix, "@", lasting).Replace(statement)); err != nil {
			return err
		}
	}
	if then := migrations[version].then; then != nil {
		if err := then(s, ctx, db); err != nil {
			return err
		}
	}
	var r rows
	r.u32(uint32(version) + 1)
	r.u64(uint64(time.Now().UnixNano()))
	r.end()
	return db.insert(ctx, s.table(versionTable), "version, told", &r)
}

// version is that of the schema of a server; 0: there is none.
func (s *Store) version(ctx context.Context, db *database) (version int, err error) {
	err = db.query(ctx, "SELECT max(version) FROM "+s.table(versionTable), func(a *answer) error {
		version = int(a.u32())
		return nil
	})
	if hasCode(err, unknownTable) {
		return 0, nil
	}
	if err == nil && version > len(migrations) {
		err = fmt.Errorf("its schema has version %d, and this footfall knows %d: it was written by a newer one", version, len(migrations))
	}
	return version, err
}

// lasting is what has tables survive a loss of power, where the server knows how.
func (d *database) lasting(ctx context.Context) (settings string, err error) {
	known, err := d.known(ctx, "merge_tree_settings", "fsync_after_insert", "fsync_part_directory")
	if err != nil || len(known) == 0 {
		return "", err
	}
	return "SETTINGS " + strings.Join(known, " = 1, ") + " = 1", nil
}

// wanted are settings of queries, where the server knows them.
var wanted = map[string]string{
	"max_query_size":                     "16777216", // lists of units are in queries
	"max_ast_elements":                   "1000000",
	"max_expanded_ast_elements":          "1000000",
	"max_bytes_before_external_group_by": "2000000000",
	"max_bytes_before_external_sort":     "2000000000",
	"max_partitions_per_insert_block":    "0",
	"async_insert":                       "0", // an answer is when it is there
	"insert_distributed_sync":            "1",
}

// adapt finds out which settings the server knows.
func (d *database) adapt(ctx context.Context) error {
	var names []string
	for name := range wanted {
		names = append(names, name)
	}
	known, err := d.known(ctx, "settings", names...)
	for _, name := range known {
		d.settings.Set(name, wanted[name])
	}
	return err
}

// known are those of some settings that a table of system has.
func (d *database) known(ctx context.Context, table string, names ...string) (known []string, err error) {
	there := false
	err = d.query(ctx, "SELECT count() > 0 FROM system.tables WHERE database = 'system' AND name = "+quote(table), func(a *answer) error {
		there = a.u8() != 0
		return nil
	})
	if err != nil || !there {
		return nil, err
	}
	return known, d.query(ctx, "SELECT name FROM system."+table+" WHERE "+inTexts("name", names)+" ORDER BY name", func(a *answer) error {
		known = append(known, a.text())
		return nil
	})
}
