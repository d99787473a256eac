// Package clickhouse keeps what a fleet has counted in a database of ClickHouse: a [store.Store] that several servers may
// write to at the same time, where one machine is outgrown.
//
// All that is written may be written twice, by whomever, in any order, since it is merged as the package store says: nothing
// is ever changed, and nobody has to be asked before. What is decided (whose an instance is, which windows take no more
// counts) is rows like others, of which the first, or the greatest, holds.
//
// It may be in several servers, which need not know of each other: see nodes.go.
//
// It is reached by HTTP, as ClickHouse 18.16 and later understand it.
package clickhouse

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"footfall/fleet/store"
)

// An id is the first bytes of a hash.
type id [16]byte

func idOf(text string) (v id) {
	sum := sha256.Sum256([]byte(text))
	copy(v[:], sum[:])
	return v
}

func unitID(h store.Hash) (v id) {
	copy(v[:], h[:])
	return v
}

// A Database is that of one or several servers, with the stores of projects: each has tables of its own.
type Database struct{ nodes []*database }

// Parse reads the address of a database, http://[USER[:PASSWORD]@]HOST:PORT[/DATABASE], or several with commas between them.
// Who is not named there is so in the environment's CLICKHOUSE_USER and CLICKHOUSE_PASSWORD.
func Parse(address string) (*Database, error) {
	d := new(Database)
	for _, one := range splitAddresses(address) {
		db, err := parse(one)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(d.nodes, func(other *database) bool { return other.String() == db.String() }) {
			return nil, fmt.Errorf("%s is there twice", db)
		}
		d.nodes = append(d.nodes, db)
	}
	return d, nil
}

// String is the addresses, without their passwords.
func (d *Database) String() string {
	list := make([]string, len(d.nodes))
	for i, db := range d.nodes {
		list[i] = db.String()
	}
	return "clickhouse:" + strings.Join(list, ",")
}

// Projects are those that have tables, and the default one.
func (d *Database) Projects(ctx context.Context) (names []string, err error) {
	names = []string{store.DefaultProject}
	end := prefix("-")[1:] + versionTable
	query := "SELECT name FROM system.tables WHERE database = " + quote(d.nodes[0].name) + " AND endsWith(name, " + quote(end) + ") ORDER BY name"
	if err := d.nodes[0].outside().query(ctx, query, func(a *answer) error {
		if name := strings.TrimSuffix(a.text(), end); store.CheckProject(name) == nil {
			names = append(names, name)
		}
		return nil
	}); err != nil {
		return nil, d.unopened(err)
	}
	return names, nil
}

// Open opens the store of a project. The database, and the tables, are made if they are not there.
func (d *Database) Open(ctx context.Context, project string) (store.Store, error) {
	s, err := d.open(ctx, project)
	if err != nil {
		return nil, d.unopened(err)
	}
	return s, nil
}

// unopened says what to do.
func (d *Database) unopened(err error) error {
	if errors.Is(err, store.ErrAway) {
		return fmt.Errorf("store %s: %w; does clickhouse-server run there, and is this its http_port?", d, err)
	}
	return fmt.Errorf("store %s: %w", d, err)
}

func (d *Database) open(ctx context.Context, project string) (*Store, error) {
	s := d.store(project)
	err := s.onNodes(func(n int, db *database) error {
		err := db.adapt(ctx)
		if hasCode(err, unknownDatabase) { // of the settings, which every database has
			if err = db.outside().exec(ctx, "CREATE DATABASE IF NOT EXISTS `"+strings.ReplaceAll(db.name, "`", "")+"`"); err == nil {
				err = db.adapt(ctx)
			}
		}
		if err == nil {
			err = s.migrate(ctx, db)
		}
		if err == nil {
			_, err = s.checkNode(ctx, n)
		}
		return err
	})
	if err == nil {
		err = s.onNodes(func(n int, _ *database) error { return s.claimNode(ctx, n) })
	}
	if err != nil {
		return nil, err
	}
	s.ended = make(chan struct{})
	go s.write()
	return s, nil
}

// Read opens the store of a project for questions only: who wants to write gets [store.ErrClosing].
func (d *Database) Read(ctx context.Context, project string) (store.Reader, error) {
	s := d.store(project)
	err := s.onNodes(func(n int, db *database) error {
		err := db.adapt(ctx)
		version := 0
		if err == nil {
			version, err = s.version(ctx, db)
		}
		switch {
		case hasCode(err, unknownDatabase), err == nil && version == 0:
			return fmt.Errorf("%s: nothing has been stored there; footfall serve makes it", db)
		case err == nil && version != len(migrations):
			return fmt.Errorf("%s: its schema has version %d, and this footfall's is %d: questions are for a store that was written by the same version", db, version, len(migrations))
		case err != nil:
			return err
		}
		_, err = s.checkNode(ctx, n)
		return err
	})
	if err != nil {
		return nil, d.unopened(err)
	}
	s.close()
	return s, nil
}

// A Store is that of a project. It may be used by several goroutines.
type Store struct {
	db     *database   // the first of nodes, which has all that is not counted
	nodes  []*database // with the counts, see shard
	prefix string
	known  catalogue
	told   told   // what the writer has told
	spare  []rows // of its last insert, for the next one: the memory of reached, by node

	pushes  *store.Queue[*push]
	stop    chan struct{}
	ended   chan struct{} // nil: nothing is written
	closing sync.Once
}

func (d *Database) store(project string) *Store {
	if project == store.DefaultProject {
		project = ""
	}
	s := &Store{prefix: prefix(project), stop: make(chan struct{})}
	for _, db := range d.nodes {
		own := *db
		own.settings = make(url.Values) // found out by each, while others are in use
		s.nodes = append(s.nodes, &own)
	}
	s.db = s.nodes[0]
	s.pushes = store.NewQueue[*push](s.stop, together)
	s.told.forget()
	s.spare = make([]rows, len(s.nodes))
	return s
}

// table is a table of the store as queries name it.
func (s *Store) table(name string) string { return "`" + s.prefix + name + "`" }

func (s *Store) close() { s.closing.Do(func() { close(s.stop) }) }

// Close ends what is being written. It may be called again.
func (s *Store) Close() error {
	s.close()
	if s.ended != nil {
		<-s.ended
	}
	return nil
}

// open tells whether the store may be written to.
func (s *Store) open() error {
	select {
	case <-s.stop:
		return store.ErrClosing
	default:
		return nil
	}
}

// patience is how long something short may take.
const patience = 40 * time.Second

// textOf is what labels are known by.
func textOf(labels map[string]string) string {
	if len(labels) == 0 {
		return "{}"
	}
	b, _ := json.Marshal(labels) // with sorted keys
	return string(b)
}
