//go:build linux

package input

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A User is somebody with whose rights files are opened.
type User struct {
	UID, GID int
	Groups   []uint32 // supplementary
}

// euid is the user who runs footfall, which it stays.
var euid = os.Geteuid()

// nogroup is the group of those who have none.
const nogroup = 65534

// Account returns a user of the system with the groups that he has by
// /etc/passwd and /etc/group; one who is not there has none.
func Account(uid int) User {
	u := User{UID: uid, GID: nogroup}
	account, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return u
	}
	if gid, err := strconv.Atoi(account.Gid); err == nil {
		u.GID = gid
	}
	ids, _ := account.GroupIds()
	for _, id := range ids {
		if gid, err := strconv.ParseUint(id, 10, 32); err == nil {
			u.Groups = append(u.Groups, uint32(gid))
		}
	}
	return u
}

// ofProcess returns the user of a process, by its directory in /proc.
func ofProcess(process string) (User, error) {
	b, err := os.ReadFile(process + "/status")
	if err != nil {
		return User{}, err
	}
	return OfStatus(b)
}

// OfStatus returns the user of a process by its /proc/PID/status, with those of
// its rights that count for files.
func OfStatus(status []byte) (User, error) {
	u := User{UID: -1, GID: -1}
	for line := range bytes.Lines(status) {
		name, rest, _ := strings.Cut(string(line), ":")
		ids := strings.Fields(rest)
		switch name {
		case "Uid", "Gid": // real, effective, saved, of files
			if len(ids) != 4 {
				continue
			}
			id, err := strconv.Atoi(ids[3])
			if err != nil {
				return User{}, err
			}
			if name == "Uid" {
				u.UID = id
			} else {
				u.GID = id
			}
		case "Groups":
			for _, id := range ids {
				if gid, err := strconv.ParseUint(id, 10, 32); err == nil {
					u.Groups = append(u.Groups, uint32(gid))
				}
			}
		}
	}
	if u.UID < 0 || u.GID < 0 {
		return User{}, errors.New("its /proc/PID/status does not tell its user")
	}
	return u, nil
}

// Open is [Open] with the rights of the user.
func (u User) Open(name string) (*os.File, error) {
	if process, inside, ok := inProcess(name); ok {
		return openOf(process, inside, name)
	}
	if !served.any() {
		return u.open(name)
	}
	return openPatiently(name, u.open)
}

// open is Open for names in our own file system.
func (u User) open(name string) (f *os.File, err error) {
	err = u.Do(func() error {
		f, err = open(name)
		return err
	})
	return f, err
}

// Do calls do with the rights of the user on files: what it makes belongs to
// him, what he may not open it may not either. do must not leave its goroutine, as
// [Open] does where it needs patience. Without root's rights, and for root himself,
// it is only called.
func (u User) Do(do func() error) error {
	if euid != 0 || u.UID == 0 && u.GID == 0 {
		return do()
	}
	done := make(chan error, 1)
	go func() {
		// The thread is never unlocked: it ends with the goroutine, and its rights
		// with it.
		runtime.LockOSThread()
		done <- u.as(do)
	}()
	return <-done
}

// AsOwner is Do with the rights of the user to whom an open file belongs.
func AsOwner(f *os.File, do func() error) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if euid != 0 || st.Uid == 0 {
		return do()
	}
	return Account(int(st.Uid)).Do(do)
}

func (u User) as(do func() error) error {
	// Of the whole process Go would set groups; this is of the thread.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(unsafe.Pointer(unsafe.SliceData(u.Groups))), 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	_ = unix.Setfsgid(u.GID)
	_ = unix.Setfsuid(u.UID)
	// They do not tell of failures; asking for none returns what is set.
	if g, _ := unix.SetfsgidRetGid(-1); g != u.GID {
		return fmt.Errorf("cannot act as group %d", u.GID)
	}
	if id, _ := unix.SetfsuidRetUid(-1); id != u.UID {
		return fmt.Errorf("cannot act as user %d", u.UID)
	}
	if u.UID != 0 {
		if err := powerless(); err != nil {
			return err
		}
	}
	return do()
}

// powerless takes all capabilities from the thread. With the user go those that pass
// by the modes of files; that to look into processes is one by which the links of
// /proc/PID, such as cwd, lead into directories of others.
func powerless() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}
