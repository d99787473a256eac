//go:build unix

package output

import (
	"errors"
	"os"
	"path"
)

// Replace puts a file that only its user may read in place of another one, or where there was none. When it returns it is on
// the disk, under its name; if the machine stops before, what was there is there. If we are killed a file stays whose name begins
// with a dot. It is for directories in which nobody else may write.
func Replace(name string, content []byte) error {
	temporary := path.Join(path.Dir(name), TemporaryName())
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return err
	}
	dir, err := os.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
