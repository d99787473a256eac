package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"footfall/fleet/store"
	"footfall/fleet/store/clickhouse"
	"footfall/fleet/store/sqlite"
)

// This file is what --store names.

// parseStores reads sqlite:DIR or clickhouse:URL. Errors do not repeat a URL, which may have a password.
func parseStores(name string) (store.Stores, error) {
	kind, where, _ := strings.Cut(name, ":")
	switch {
	case kind == "sqlite" && where != "":
		return sqlite.Dir(where), nil
	case kind == "clickhouse":
		stores, err := clickhouse.Parse(where)
		if err != nil {
			return nil, fmt.Errorf("--store=clickhouse:...: %w", err)
		}
		return stores, nil
	}
	if strings.Contains(name, "@") {
		name = kind + ":..."
	}
	return nil, fmt.Errorf("--store=%s: sqlite:DIR or clickhouse:URL was expected", name)
}

// readStore opens the store of the default project for questions.
func readStore(ctx context.Context, name string) (store.Reader, error) {
	stores, err := parseStores(name)
	if err != nil {
		return nil, usageError(err)
	}
	switch stores := stores.(type) {
	case sqlite.Dir:
		s, err := sqlite.Read(ctx, string(stores))
		if err != nil {
			return nil, err
		}
		return s, nil
	case *clickhouse.Database:
		return stores.Read(ctx, store.DefaultProject)
	}
	return nil, fmt.Errorf("%v cannot be asked", stores)
}

// backup copies the stores of a directory to another one.
func backup(ctx context.Context, stores store.Stores, to string) error {
	dir, ok := stores.(sqlite.Dir)
	if !ok {
		return usageError(errors.New("--backup copies what is in sqlite:DIR; of a ClickHouse it is BACKUP DATABASE, or FREEZE of its tables, that does"))
	}
	return dir.Backup(ctx, to)
}
