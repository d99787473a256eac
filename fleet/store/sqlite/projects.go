package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"footfall/fleet/store"
)

// A Dir is the directory of the stores of a server: that of the default project, and below it those of others.
type Dir string

// projectsDir is where projects are but the default one.
const projectsDir = "projects"

func (d Dir) of(project string) string {
	if project == store.DefaultProject {
		return string(d)
	}
	return filepath.Join(string(d), projectsDir, project)
}

// Projects are those that have a store in the directory, and the default one.
func (d Dir) Projects(context.Context) (names []string, err error) {
	names = []string{store.DefaultProject}
	entries, err := os.ReadDir(filepath.Join(string(d), projectsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && store.CheckProject(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Open opens the store of a project, which is made if it is not there.
func (d Dir) Open(ctx context.Context, project string) (store.Store, error) {
	s, err := Open(ctx, d.of(project))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Backup copies all stores of the directory to another one, which is made, while they are used.
func (d Dir) Backup(ctx context.Context, to string) error {
	names, err := d.Projects(ctx)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		target := Dir(to).of(name)
		if err := os.MkdirAll(target, 0o700); err != nil {
			return err
		}
		if err := backup(ctx, d.of(name), filepath.Join(target, fileName)); err != nil {
			return err
		}
	}
	return nil
}

// backup writes a copy of the store in a directory to a file that is not there yet, while the store is used by
// whoever uses it.
func backup(ctx context.Context, dir, file string) error {
	if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", uri(dir, fileName, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)"}}))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		return fmt.Errorf("back up to %s: %w", file, err)
	}
	return nil
}
