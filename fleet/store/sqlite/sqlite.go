// Package sqlite keeps what a fleet has counted in files of one machine: a [store.Store] in a directory, which serves a
// team. Vectors are packed (store.PackVector), and merged where they are written.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite" // the driver "sqlite"

	"footfall/fleet/store"
)

// A Store is a store in a directory of one machine. It may be used by several goroutines; of
// processes one at a time writes.
type Store struct {
	db      *sql.DB // reads
	lock    *sql.DB // nil: it is only read
	writer  *writer
	pushes  *store.Queue[func(*writer) error]
	stop    chan struct{}
	closing sync.Once
	done    sync.WaitGroup
}

// Open opens the store in a directory, which is made if it is not there.
func Open(ctx context.Context, dir string) (*Store, error) {
	s, err := openDir(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	return s, nil
}

// fileName is that of the database within the directory of a store.
const fileName = "footfall.db"

func openDir(ctx context.Context, dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// What is acknowledged survives the loss of power: synchronous is FULL, and many
	// batches are one transaction. Foreign keys are not enforced: whatever is deleted SQLite would look for in all counts.
	options := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(10000)", "cache_size(-65536)",
		"wal_autocheckpoint(8000)"}, // pages: each checkpoint costs looks at the disk, too
		"_txlock": {"immediate"}}
	locked, err := lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", uri(dir, fileName, options))
	if err != nil {
		return nil, errors.Join(err, locked.Close())
	}
	err = migrate(ctx, db)
	var c *connection
	if err == nil {
		c, err = connect(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close(), locked.Close())
	}
	s := newStore(db)
	s.lock, s.writer = locked, newWriter(c)
	s.done.Go(s.write)
	return s, nil
}

func newStore(db *sql.DB) *Store {
	s := &Store{db: db, stop: make(chan struct{})}
	s.pushes = store.NewQueue[func(*writer) error](s.stop, together)
	return s
}

// ErrOpen is returned where another process writes to the store.
var ErrOpen = errors.New("it is in use by another footfall serve")

// lock has the store be written to by nobody else until what it returns is closed, or we end: a writer knows what
// it has written. It is a transaction of a database that is empty, since locks of files differ from system to system.
func lock(ctx context.Context, dir string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", uri(dir, "footfall.lock", nil))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		if code := (*sqlite.Error)(nil); errors.As(err, &code) && code.Code()&0xff == busy {
			err = ErrOpen
		}
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// busy is SQLITE_BUSY.
const busy = 5

// uri is the address of a database in a directory, as SQLite wants it.
func uri(dir, name string, options url.Values) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.Join(dir, name)}).EscapedPath(), RawQuery: options.Encode()}).String()
}

// Read opens the store in a directory for questions only, while another process may write it.
// Those who want to write get [store.ErrClosing].
func Read(ctx context.Context, dir string) (*Store, error) {
	s, err := readDir(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	return s, nil
}

func readDir(ctx context.Context, dir string) (*Store, error) {
	if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
		return nil, err
	}
	options := url.Values{"mode": {"ro"}, "_pragma": {"query_only(1)", "busy_timeout(10000)", "cache_size(-65536)"}}
	s, err := reader(ctx, dir, options)
	if log, other := os.Stat(filepath.Join(dir, fileName+"-wal")); err != nil && (other != nil || log.Size() == 0) {
		// Who reads a database with a log has a file beside it for what is being read, which not
		// everybody may make. Where nobody writes, which an empty log tells, it is not needed.
		options.Set("immutable", "1")
		if s, other := reader(ctx, dir, options); other == nil {
			return s, nil
		}
	}
	return s, err
}

func reader(ctx context.Context, dir string, options url.Values) (*Store, error) {
	db, err := sql.Open("sqlite", uri(dir, fileName, options))
	if err != nil {
		return nil, err
	}
	var version int
	if err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err == nil && version != len(migrations) {
		err = fmt.Errorf("its schema has version %d, and this footfall's is %d: questions are for a store that was written by the same version", version, len(migrations))
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	s := newStore(db)
	s.closing.Do(func() { close(s.stop) })
	return s, nil
}

// Close ends what is being written, and closes the files. It may be called again.
func (s *Store) Close() error {
	s.closing.Do(func() { close(s.stop) })
	s.done.Wait()
	var err error
	if s.writer != nil {
		err = s.writer.close()
	}
	err = errors.Join(err, s.db.Close())
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// together is how much is written in one transaction, at most.
const together = 256

// write writes what is pushed, as long as the store is open: what waits in one transaction, so that
// it costs one look at the disk.
func (s *Store) write() {
	for all := s.pushes.Take(store.Patience{}); all != nil; all = s.pushes.Take(store.Patience{}) {
		s.writeTogether(all)
	}
}

// writeTogether answers each push. What one of them would have done is left out if it fails.
func (s *Store) writeTogether(all []store.Waiting[func(*writer) error]) {
	results := make([]error, len(all))
	err := s.transaction(func(w *writer) error {
		for i, p := range all {
			results[i] = w.savepoint(func() error { return p.What(w) })
			if w.broken != nil {
				return w.broken
			}
		}
		return nil
	})
	for i, p := range all {
		p.Answer(errors.Join(err, results[i]))
	}
}

// transaction calls do within one.
func (s *Store) transaction(do func(*writer) error) error {
	w := s.writer
	w.broken = nil
	if _, err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := do(w)
	if err == nil {
		_, err = w.exec("COMMIT")
	}
	if err != nil {
		w.forget()
		_, _ = w.exec("ROLLBACK") // of a transaction that may have ended
	}
	return err
}

// PutBuild tells a build and its units, see [store.Store].
func (s *Store) PutBuild(ctx context.Context, b *store.Build) error {
	packed := make([][]byte, len(b.Units))
	for i := range b.Units {
		packed[i] = packer().EncodeAll(b.Units[i].Program, nil)
	}
	return s.pushes.Do(ctx, func(w *writer) error {
		build, err := w.putBuild(b)
		for i := range b.Units {
			if err == nil {
				err = w.putUnit(build, &b.Units[i], packed[i])
			}
		}
		return err
	})
}

// Announce tells a build and the hashes of its units.
func (s *Store) Announce(ctx context.Context, id, release string, units []store.Hash) (unknown []store.Hash, err error) {
	err = s.pushes.Do(ctx, func(w *writer) error {
		build, err := w.putBuild(&store.Build{ID: id, Release: release})
		if err == nil {
			unknown, err = w.announce(build, units)
		}
		return err
	})
	return unknown, err
}

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

// Push adds a batch, and returns when it is on disk.
func (s *Store) Push(ctx context.Context, b *store.Batch) error {
	return s.pushes.Do(ctx, func(w *writer) error { return w.push(b) })
}

// labelsText is what labels are known by.
func labelsText(labels map[string]string) string {
	if len(labels) == 0 {
		return "{}"
	}
	b, _ := json.Marshal(labels) // with sorted keys
	return string(b)
}

// Expire makes sums of days, and forgets.
func (s *Store) Expire(ctx context.Context, rolled, forgotten time.Time) error {
	return s.pushes.Do(ctx, func(w *writer) error { return w.expire(rolled.Unix(), forgotten.Unix()) })
}
