// Package options finds the file with a project's options, footfall.toml. What
// may stand in it is for the commands to say.
package options

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
)

// FileName is the name of the file.
const FileName = "footfall.toml"

// Find returns the path of the file in dir or in the nearest directory above
// that has one, "" if there is none. The search ends at the root of a
// repository, and at a directory in which everybody may write, such as /tmp:
// options name files to be written. For the same reason a file of another user, or
// in a directory of his, is an error, as a repository of another user is to git.
func Find(dir string) (string, error) {
	for {
		name := path.Join(dir, FileName)
		_, err := os.Stat(name)
		if info, dirErr := os.Stat(dir); dirErr == nil && isEverybodys(info) {
			if err == nil {
				return "", fmt.Errorf("%s lies in a directory in which everybody may write: --config %[1]s takes it nevertheless, --no-config does without", name)
			}
			return "", nil
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return name, trust(name, dir)
		}
		if _, err := os.Lstat(path.Join(dir, ".git")); err == nil || dir == path.Dir(dir) {
			return "", nil
		}
		dir = path.Dir(dir)
	}
}

// trust returns an error if a file, a link to it or its directory belongs to
// another user.
func trust(name, dir string) error {
	for _, look := range []struct {
		what string
		stat func(string) (os.FileInfo, error)
		path string
	}{{name, os.Lstat, name}, {name, os.Stat, name}, {"the directory of " + name, os.Stat, dir}} {
		info, err := look.stat(look.path)
		if err != nil {
			return nil // who reads it will say what is wrong
		}
		if uid, ok := owner(info); ok && !trusted(uid) {
			return fmt.Errorf("%s belongs to user %d, and options say which files are written: --config %s takes it nevertheless, --no-config does without", look.what, uid, name)
		}
	}
	return nil
}

// trusted tells whether what a user has written may say what we do: root may, who
// could do it anyway, and who has called sudo.
func trusted(uid int) bool {
	us := os.Geteuid()
	if uid == 0 || uid == us {
		return true
	}
	caller, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	return us == 0 && err == nil && uid == caller
}
