//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"footfall/input"

	"golang.org/x/sys/unix"
)

// A Mapping is a range of addresses of a process.
type Mapping struct {
	Start, End uint64
	Read       bool
	Write      bool
	Exec       bool
	Offset     uint64 // in the file
	Device     string // of the file, "00:00": none
	Inode      uint64
	Path       string // as the process sees it; "[heap]" and such; "" for anonymous memory
	Deleted    bool   // the file has been removed or replaced since
}

// Maps are the mappings of a process by ascending address.
type Maps []Mapping

const deletedSuffix = " (deleted)"

// Maps reads the memory map. The second result is its text, which is the same
// as long as nothing has changed.
func (p *Process) Maps() (Maps, []byte, error) {
	b, err := p.MapText()
	if err != nil {
		return nil, nil, err
	}
	maps, err := parseMaps(b)
	if err != nil {
		return nil, nil, fmt.Errorf("process %d: /proc/%d/maps: %w", p.PID, p.PID, err)
	}
	return maps, b, nil
}

// MapText reads the text of the memory map, to see whether it has changed.
func (p *Process) MapText() ([]byte, error) {
	from := p.thread()
	b, err := p.read("maps")
	if err == nil && len(b) == 0 && p.movedOn(from) {
		b, err = p.read("maps")
	}
	if err == nil && len(b) == 0 { // a zombie, or a thread of the kernel
		return nil, ErrExited
	}
	return b, err
}

// parseMaps reads lines like
//
//	7f1c00000000-7f1c00021000 rw-p 0000a000 fd:01 1234   /usr/lib/x.so (deleted)
func parseMaps(b []byte) (Maps, error) {
	var maps Maps
	for line := range bytes.Lines(b) {
		part := strings.SplitN(strings.TrimSuffix(string(line), "\n"), " ", 6)
		if len(part) < 5 || len(part[1]) < 4 {
			return nil, fmt.Errorf("line %q has an unknown form", line)
		}
		low, high, _ := strings.Cut(part[0], "-")
		start, err1 := strconv.ParseUint(low, 16, 64)
		end, err2 := strconv.ParseUint(high, 16, 64)
		offset, err3 := strconv.ParseUint(part[2], 16, 64)
		inode, err4 := strconv.ParseUint(part[4], 10, 64)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		m := Mapping{Start: start, End: end, Offset: offset, Device: part[3], Inode: inode}
		m.Read, m.Write, m.Exec = part[1][0] == 'r', part[1][1] == 'w', part[1][2] == 'x'
		if len(part) == 6 {
			m.Path = strings.TrimLeft(part[5], " ")
			m.Path, m.Deleted = strings.CutSuffix(m.Path, deletedSuffix)
			m.Path = strings.ReplaceAll(m.Path, `\012`, "\n")
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// At returns the mapping of the address, nil if there is none.
func (m Maps) At(addr uint64) *Mapping {
	i := sort.Search(len(m), func(i int) bool { return m[i].End > addr })
	if i == len(m) || m[i].Start > addr {
		return nil
	}
	return &m[i]
}

// A MappedFile is a file that is mapped from its beginning: the program, a shared
// library, or any other file.
type MappedFile struct {
	Path    string // as the process sees it
	Start   uint64 // address of the file's beginning
	Parts   Maps   // its mappings, by ascending address
	Deleted bool   // removed or replaced since it was mapped

	process *Process
	device  string
	inode   uint64
}

// Images returns the files that have executable parts mapped, by ascending
// address. A file that is mapped twice (by dlmopen) is two images.
func (p *Process) Images(maps Maps) []*MappedFile { return p.files(maps, (*MappedFile).mapsCode) }

// GuestImages returns the files of the program that an emulator runs: their code is
// translated, so no part of them is executable, but what they may write is mapped as a
// loader does.
func (p *Process) GuestImages(maps Maps) []*MappedFile {
	return slices.DeleteFunc(p.files(maps, (*MappedFile).mapsData), (*MappedFile).mapsCode)
}

// Emulator returns the name of the emulator that the process runs, if it is one of
// QEMU's for programs of Linux (qemu-user), which map the program of another CPU into their own
// memory; else "".
func (p *Process) Emulator() string {
	name, _, err := p.program()
	name = path.Base(strings.TrimSuffix(name, deletedSuffix))
	if err != nil || !strings.HasPrefix(name, "qemu-") || strings.HasPrefix(name, "qemu-system-") {
		return ""
	}
	return name
}

// files returns the files that are mapped from their beginning and are whole, by
// ascending address.
func (p *Process) files(maps Maps, whole func(*MappedFile) bool) []*MappedFile {
	var files []*MappedFile
	open := make(map[string]*MappedFile) // the last one of each file
	for _, m := range maps {
		if m.Inode == 0 || !strings.HasPrefix(m.Path, "/") {
			continue
		}
		key := m.Device + " " + strconv.FormatUint(m.Inode, 10)
		file := open[key]
		if m.Offset == 0 && (file == nil || whole(file)) {
			file = &MappedFile{Path: m.Path, Start: m.Start, Deleted: m.Deleted, process: p, device: m.Device, inode: m.Inode}
			open[key] = file
			files = append(files, file)
		}
		if file != nil {
			file.Parts = append(file.Parts, m)
		}
	}
	return slices.DeleteFunc(files, func(f *MappedFile) bool { return !whole(f) })
}

func (i *MappedFile) mapsCode() bool {
	return slices.ContainsFunc(i.Parts, func(m Mapping) bool { return m.Exec })
}

func (i *MappedFile) mapsData() bool {
	return slices.ContainsFunc(i.Parts, func(m Mapping) bool { return m.Write })
}

// Key tells images of different files, or at different places, apart.
func (i *MappedFile) Key() string {
	return fmt.Sprintf("%x %s %d %s", i.Start, i.device, i.inode, i.Path)
}

// File tells the file of the image from any other, as long as the system runs.
func (i *MappedFile) File() string { return fmt.Sprintf("%s %d", i.device, i.inode) }

// Changed tells when the file was changed last, as the kernel counts it: with File it tells the
// contents from any other. "": it is not known.
func (i *MappedFile) Changed() string {
	var st unix.Statx_t
	name := path.Clean("/" + i.Path)
	if i.Deleted || unix.Statx(unix.AT_FDCWD, i.process.Root()+name, 0, unix.STATX_INO|unix.STATX_CTIME, &st) != nil || st.Ino != i.inode {
		return ""
	}
	return fmt.Sprintf("%d.%09d", st.Ctime.Sec, st.Ctime.Nsec)
}

// IsProgram tells whether the file is the program that the process runs, and no
// library.
func (i *MappedFile) IsProgram() bool {
	name, inode, err := i.process.program()
	if err != nil && i.process.living.Load() != 0 { // that thread has ended, too
		if _, err = i.process.stat(); err == nil {
			name, inode, err = i.process.program()
		}
	}
	return err == nil && strings.TrimSuffix(name, deletedSuffix) == i.Path && inode == i.inode
}

// program returns the path and the inode of what the process runs. Where the first
// thread has ended only another one knows it.
func (p *Process) program() (name string, inode uint64, err error) {
	var st unix.Stat_t
	if name, err = os.Readlink(p.Dir() + "/exe"); err == nil {
		err = unix.Fstatat(int(p.dir.Fd()), p.within()+"exe", &st, 0)
	}
	return name, st.Ino, err
}

// Open opens the file: through the root of the process, so that containers
// work, or, when another file has that name now, through its mapping.
func (i *MappedFile) Open() (*os.File, error) {
	if !i.Deleted {
		// With our rights: a program need not be permitted to read its own file,
		// and that it is the one that is mapped is seen.
		if f, err := (input.User{}).OpenThat(i.process.Root(), path.Clean("/"+i.Path), i.is); err == nil {
			return f, nil
		}
	}
	first := i.Parts[0]
	name := fmt.Sprintf("map_files/%x-%x", first.Start, first.End)
	return input.OpenBy(i.Path, func() (*os.File, error) { return i.process.open(name, unix.O_RDONLY) })
}

// is tells whether f is the file that was mapped.
func (i *MappedFile) is(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Ino == i.inode &&
		(i.device == fmt.Sprintf("%02x:%02x", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))) || isStacked(f))
}

// isStacked tells whether a file is on a file system that shows another device in
// maps than in stat: of its inodes there only the numbers are known.
func isStacked(f *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	switch st.Type {
	case unix.OVERLAYFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.ECRYPTFS_SUPER_MAGIC, bcachefsMagic, aufsMagic:
		return true
	}
	return false
}

// Of file systems, as statfs tells them; x/sys does not have these.
const (
	bcachefsMagic = 0xca451a4e
	aufsMagic     = 0x61756673
)

// OpenInRoot opens a regular file by its absolute path as the process sees it,
// with the rights of its user.
func (p *Process) OpenInRoot(name string) (f *os.File, err error) {
	user, err := p.User()
	if err != nil {
		return nil, err
	}
	return p.below(name, user)
}

// below opens a regular file by its absolute path as the process sees it, with the
// rights of a user: links do not lead out of its root.
func (p *Process) below(name string, user input.User) (*os.File, error) {
	name = path.Clean("/" + name)
	dir := p.Root()
	if dir == "" {
		return user.Open(name)
	}
	return user.OpenBelow(dir, name)
}
