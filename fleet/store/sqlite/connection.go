package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// A connection is the one that is written by. Its statements are compiled once: they are short, and to
// compile them takes as long as to carry them out.
type connection struct {
	conn     *sql.Conn
	compiled map[string]*sql.Stmt // by their text, of which there are a few
}

// uninterrupted is that what is written is short, and is not to be left off half way.
var uninterrupted = context.Background()

func connect(ctx context.Context, db *sql.DB) (*connection, error) {
	conn, err := db.Conn(ctx)
	return &connection{conn, make(map[string]*sql.Stmt)}, err
}

// close may be called again.
func (c *connection) close() error {
	var err error
	for _, s := range c.compiled {
		err = errors.Join(err, s.Close())
	}
	if again := c.conn.Close(); !errors.Is(again, sql.ErrConnDone) {
		err = errors.Join(err, again)
	}
	return err
}

func (c *connection) statement(text string) (s *sql.Stmt, err error) {
	if s = c.compiled[text]; s == nil {
		if s, err = c.conn.PrepareContext(uninterrupted, text); err == nil {
			c.compiled[text] = s
		}
	}
	return s, err
}

func (c *connection) exec(text string, args ...any) (sql.Result, error) {
	s, err := c.statement(text)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(uninterrupted, args...)
}

func (c *connection) query(text string, args ...any) (*sql.Rows, error) {
	s, err := c.statement(text)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(uninterrupted, args...)
}

// one reads a row.
func (c *connection) one(to []any, text string, args ...any) error {
	s, err := c.statement(text)
	if err != nil {
		return err
	}
	return s.QueryRowContext(uninterrupted, args...).Scan(to...)
}
