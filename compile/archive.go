//go:build linux

package compile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
)

// An archive of ar is a line, then its members, each behind a header of 60
// characters and at an even offset:
//
//	!<arch>\n  or  !<thin>\n             thin: members are files of their own
//	name[16] date[12] uid[6] gid[6] mode[8] size[10] `\n
//	data, "\n" if that is odd
//
// Names end in "/". "/" itself is the index of symbols, "//" the table of long
// names; "/N" is the name at its offset N, "#1/N" one of N bytes before the data.
// The index is a number of symbols, the offset of a member for each, all of 4
// bytes, big endian, and then their names.
const (
	archiveMagic  = "!<arch>\n"
	thinMagic     = "!<thin>\n"
	memberEnd     = "`\n"
	memberHeader  = 60
	maxNamesTable = 64 << 20
)

// A member is one file of an archive.
type member struct {
	name string
	data *io.SectionReader // nil in a thin archive, whose name is that of a file
}

// readMembers returns the members of an archive that are not its index or names.
func readMembers(r io.ReaderAt, size int64) ([]member, error) {
	head := make([]byte, memberHeader)
	if _, err := r.ReadAt(head[:8], 0); err != nil || string(head[:8]) != archiveMagic && string(head[:8]) != thinMagic {
		return nil, fmt.Errorf("not an archive")
	}
	thin := string(head[:8]) == thinMagic
	var list []member
	var names []byte
	for at := int64(8); at+memberHeader <= size; {
		if _, err := r.ReadAt(head, at); err != nil {
			return nil, err
		}
		length, err := strconv.ParseInt(strings.TrimRight(string(head[48:58]), " "), 10, 64)
		name := strings.TrimRight(string(head[:16]), " ")
		special := name == "/" || name == "//" || name == "/SYM64/"
		stored := length
		if thin && !special {
			stored = 0
		}
		data := at + memberHeader
		if err != nil || string(head[58:]) != memberEnd || length < 0 || stored > size-data {
			return nil, fmt.Errorf("offset %#x: no header of a member of an archive", at)
		}
		at = data + stored + stored&1
		switch {
		case name == "//" && length <= maxNamesTable:
			names = make([]byte, length)
			if _, err := r.ReadAt(names, data); err != nil {
				return nil, err
			}
			continue
		case special || strings.HasPrefix(name, "__.SYMDEF"):
			continue
		}
		if n, ok := strings.CutPrefix(name, "#1/"); ok {
			size, err := strconv.ParseInt(n, 10, 16)
			if err != nil || size < 0 || size > stored {
				return nil, fmt.Errorf("offset %#x: a member's name of %s bytes", data, n)
			}
			text := make([]byte, size)
			if _, err := r.ReadAt(text, data); err != nil {
				return nil, err
			}
			name, data, stored = string(bytes.TrimRight(text, "\x00")), data+size, stored-size
		} else if name, err = memberName(name, names); err != nil {
			return nil, fmt.Errorf("offset %#x: %w", data-memberHeader, err)
		}
		m := member{name: name}
		if !thin {
			m.data = io.NewSectionReader(r, data, stored)
		}
		list = append(list, m)
	}
	return list, nil
}

// memberName returns the name that a header's name stands for.
func memberName(name string, names []byte) (string, error) {
	offset, err := strconv.Atoi(strings.TrimPrefix(name, "/"))
	if !strings.HasPrefix(name, "/") || err != nil {
		return strings.TrimSuffix(name, "/"), nil
	}
	if offset < 0 || offset >= len(names) {
		return "", fmt.Errorf("a name at %d of %d", offset, len(names))
	}
	name, _, _ = strings.Cut(string(names[offset:]), "\n")
	return strings.TrimSuffix(name, "/"), nil
}

// readArchive is readMembers of a file, which stays open until the process ends,
// and of the files that a thin archive names.
func readArchive(name string) ([]member, error) {
	f, info, err := open(name)
	if err != nil {
		return nil, err
	}
	list, err := readMembers(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, m := range list {
		if m.data != nil {
			continue
		}
		file := m.name
		if !path.IsAbs(file) {
			file = path.Join(path.Dir(name), file)
		}
		info, err := os.Stat(file)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s: %w", file, errNotRegular)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list[i].data = io.NewSectionReader(closedFile(file), 0, info.Size())
	}
	return list, nil
}

// A closedFile is open only while it is read: a thin archive may have more members
// than a process may have files.
type closedFile string

func (name closedFile) ReadAt(p []byte, at int64) (int, error) {
	// The archive has named it: what it is by now may be a pipe.
	f, err := openRegular(string(name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(p, at)
}

func open(name string) (*os.File, os.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	return f, info, nil
}

// writeArchive writes an archive of object files, with an index.
func writeArchive(w io.Writer, list []member) error {
	var symbols, names []byte
	var defines [][]string
	count := 0
	for _, m := range list {
		names = append(append(names, path.Base(m.name)...), "/\n"...)
		d := definitions(m.data)
		for _, s := range d {
			symbols = append(append(symbols, s...), 0)
		}
		count += len(d)
		defines = append(defines, d)
	}
	even := func(n int) int { return n + n&1 }
	index := binary.BigEndian.AppendUint32(nil, uint32(count))
	at := len(archiveMagic) + memberHeader + even(4+4*count+len(symbols)) + memberHeader + even(len(names))
	for i, m := range list {
		for range defines[i] {
			index = binary.BigEndian.AppendUint32(index, uint32(at))
		}
		at += memberHeader + even(int(m.data.Size()))
	}
	if int64(at) > 1<<32-1 {
		return fmt.Errorf("an archive of %d bytes", at)
	}
	index = append(index, symbols...)
	var err error
	write := func(name string, size int64, data io.Reader) {
		if err == nil {
			_, err = fmt.Fprintf(w, "%-16s%-12d%-6d%-6d%-8s%-10d%s", name, 0, 0, 0, "644", size, memberEnd)
		}
		if err == nil {
			_, err = io.Copy(w, data)
		}
		if err == nil && size&1 == 1 {
			_, err = io.WriteString(w, "\n")
		}
	}
	if _, err := io.WriteString(w, archiveMagic); err != nil {
		return err
	}
	write("/", int64(len(index)), bytes.NewReader(index))
	write("//", int64(len(names)), bytes.NewReader(names))
	offset := 0
	for _, m := range list {
		write("/"+strconv.Itoa(offset), m.data.Size(), io.NewSectionReader(m.data, 0, m.data.Size()))
		offset += len(path.Base(m.name)) + 2
	}
	return err
}
