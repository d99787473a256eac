// Package options finds the file with a project's options, footfall.toml. What
// may stand in it is for the commands to say.
package options

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// FileName is the name of the file.
const FileName = "footfall.toml"

// Find returns the path of the file in dir or in the nearest directory above
// that has one, "" if there is none. The search ends at the root of a
// repository, and at a directory in which everybody may write, such as /tmp:
// options name files to be written.
func Find(dir string) (string, error) {
	for {
		name := path.Join(dir, FileName)
		_, err := os.Stat(name)
		if info, dirErr := os.Stat(dir); dirErr == nil && info.Mode().Perm()&0o002 != 0 {
			if err == nil {
				return "", fmt.Errorf("%s lies in a directory in which everybody may write: --config %[1]s takes it nevertheless, --no-config does without", name)
			}
			return "", nil
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return name, nil
		}
		if _, err := os.Lstat(path.Join(dir, ".git")); err == nil || dir == path.Dir(dir) {
			return "", nil
		}
		dir = path.Dir(dir)
	}
}
