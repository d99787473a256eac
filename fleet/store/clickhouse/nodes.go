package clickhouse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// A store may be in several servers of ClickHouse, its nodes. Each has the counts of some units, all of them, by their ids: sums,
// times and days of a unit are made where it is. What is not counted (builds, units, whose instances are, limits) is in the
// first, and labels, which questions about counts may name, are in all.
//
// What is pushed is acknowledged when all nodes have their parts. While one is away none is, and whoever pushes again writes
// the same again. So nothing has to be made good when it comes back, and no node has to know of another.
//
// Which node has a unit depends on how many there are. Each says which one it is, so that none is left out, and none added.

// splitAddresses returns addresses that have commas between them: one may be within a password, too.
func splitAddresses(list string) (all []string) {
	for from := 0; ; {
		end := len(list)
		for _, scheme := range []string{",http://", ",https://"} {
			if i := strings.Index(list[from:], scheme); i >= 0 {
				end = min(end, from+i)
			}
		}
		if all = append(all, list[from:end]); end == len(list) {
			return all
		}
		from = end + 1
	}
}

// shard is the node that has the counts of a unit.
func (s *Store) shard(unit id) int {
	return int(binary.BigEndian.Uint32(unit[:]) % uint32(len(s.nodes)))
}

// onNodes does something on all nodes at the same time.
func (s *Store) onNodes(do func(n int, db *database) error) error {
	errs := make([]error, len(s.nodes))
	var group sync.WaitGroup
	for n, db := range s.nodes {
		group.Go(func() { errs[n] = do(n, db) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// claimNode has a node say which one it is, if it has not.
func (s *Store) claimNode(ctx context.Context, n int) error {
	db := s.nodes[n]
	claimed, err := s.checkNode(ctx, n)
	if err != nil || claimed {
		return err
	}
	if len(s.nodes) > 1 { // it may have been alone
		if some, err := s.counts(ctx, db); err != nil || some {
			return errors.Join(err, fmt.Errorf("%s has counts that were stored without the other servers: name it alone, or databases that have none", db))
		}
	}
	var r rows
	r.u32(uint32(n))
	r.u32(uint32(len(s.nodes)))
	r.end()
	if err := db.insert(ctx, s.table("node"), "number, nodes", &r); err != nil {
		return err
	}
	_, err = s.checkNode(ctx, n) // others may have claimed it at the same time
	return err
}

// checkNode tells whether a node has said which one it is. That it is another one is an error.
func (s *Store) checkNode(ctx context.Context, n int) (claimed bool, err error) {
	db := s.nodes[n]
	err = db.query(ctx, "SELECT DISTINCT number, nodes FROM "+s.table("node"), func(a *answer) error {
		number, of := a.u32(), a.u32()
		if claimed = true; int(number) != n || int(of) != len(s.nodes) {
			return fmt.Errorf("%s is number %d of the %d servers of its store, and was named as number %d of %d: name all, in the order in which they were named first", db, number+1, of, n+1, len(s.nodes))
		}
		return nil
	})
	return claimed, err
}

// counts tells whether a node has counts.
func (s *Store) counts(ctx context.Context, db *database) (some bool, err error) {
	for _, table := range []string{"reached", "sums", "times"} {
		if err == nil {
			err = db.query(ctx, "SELECT 1 FROM "+s.table(table)+" LIMIT 1", func(a *answer) error {
				some = a.u8() > 0 || some
				return nil
			})
		}
	}
	return some, err
}
