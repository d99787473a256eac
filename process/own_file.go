//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ReleaseOwnFile lets go of what this process has in memory of its own program's file and cannot write to: code and constants, of
// which what is done once, and then never again, needs the most. A page that is needed again is had from the file, which the kernel
// does by itself, mostly without reading it: its cache has it as long as there is memory for that. Parts in which somebody
// else, a debugger, has changed something stay.
func ReleaseOwnFile() error {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	path = strings.TrimSuffix(path, deletedSuffix)
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	parts, err := unchangedParts(text, path)
	for _, m := range parts {
		if _, _, failed := unix.Syscall(unix.SYS_MADVISE, uintptr(m.Start), uintptr(m.End-m.Start), unix.MADV_DONTNEED); failed != 0 {
			err = errors.Join(err, fmt.Errorf("let go of %#x-%#x of %s: %w", m.Start, m.End, path, failed))
		}
	}
	return err
}

// unchangedParts finds, in the text of smaps, the mappings of a file that cannot be written to and of which all pages are the file's.
//
//	00401000-01331000 r-xp 00001000 fe:01 1234   /usr/bin/footfall
//	Rss:               14000 kB
//	Anonymous:             0 kB
//	...
func unchangedParts(text []byte, path string) (parts []Mapping, err error) {
	var last *Mapping
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		if strings.Contains(name, " ") { // of a mapping
			maps, err := parseMaps(line)
			if err != nil {
				return nil, err
			}
			if last = nil; len(maps) == 1 && maps[0].Path == path && !maps[0].Write {
				last = &maps[0]
			}
		} else if name == "Anonymous" && strings.TrimSpace(value) == "0 kB" && last != nil {
			parts = append(parts, *last)
		}
	}
	return parts, nil
}
