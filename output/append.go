package output

import (
	"fmt"
	"os"
)

// Append adds b to the end of a file in one write, so that lines of several programs do not
// mix, and makes the file if it is not there. One that belongs to another user, who could
// read and change what is in it, is an error.
func Append(name string, b []byte) error {
	target, old, err := follow(slashed(name))
	if err != nil {
		return err
	}
	f := &PendingFile{name: name, path: target}
	switch {
	case old != nil && !old.Mode().IsRegular():
		err = f.openOther(old)
	case old != nil && !ours(old):
		err = fmt.Errorf("%s belongs to another user (uid %d) and is not added to", target, owner(old))
	case old != nil:
		f.f, err = os.OpenFile(target, os.O_WRONLY|os.O_APPEND|noFollow, 0)
	default:
		f.f, err = os.OpenFile(target, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL|noFollow, 0o666)
	}
	if err != nil {
		return f.named(err)
	}
	_, _ = f.Write(b) // Close tells
	return f.Close()
}
