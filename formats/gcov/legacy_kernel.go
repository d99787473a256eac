package gcov

import (
	"encoding/binary"
	"strings"
)

// A LegacyObject is the part of one object in the dump of all that the GCOV
// patch for Linux of 2002 shows as /proc/gcov/vmlinux. Each has a word of 8
// bytes, the path of its .da file, padded with zeros to 8 bytes, and what would
// be in that file.
//
// The patch as it was posted takes the offset of a counter in this dump without
// the head before it: of each object the first counters are those that belong
// further on, and the last come from behind it.
type LegacyObject struct {
	Path   string
	Counts *LegacyCounts
}

// ReadLegacyDump decodes such a dump. On an error the objects are those before
// it.
func ReadLegacyDump(b []byte) ([]LegacyObject, error) {
	r := &legacyReader{b: b}
	var list []LegacyObject
	for r.pos < len(b) {
		r.counter() // the length of the path, or of all: it is not needed
		start := r.pos
		for r.pos < len(b) && b[r.pos] != 0 {
			r.pos++
		}
		path := string(b[start:r.pos])
		if r.pos = start + (len(path)/8+1)*8; r.err == nil && (r.pos > len(b) || !strings.HasSuffix(path, ".da")) {
			r.fail(start, "expected the path of a .da file, found %.40q", path)
		}
		at := r.pos
		n := r.counter()
		if r.err == nil && (n < 0 || n > int64(len(b)-r.pos)/8) {
			r.fail(at, "%d counters of %s, but only %d bytes are left", n, path, len(b)-r.pos)
		}
		if r.err != nil {
			break
		}
		c := &LegacyCounts{}
		for range n {
			c.Values = append(c.Values, r.counter())
		}
		list = append(list, LegacyObject{path, c})
	}
	return list, r.result()
}

// IsLegacyDump tells whether a file begins like one.
func IsLegacyDump(b []byte) bool {
	if len(b) < 24 || binary.LittleEndian.Uint64(b) > 1<<16 {
		return false
	}
	path, _, ok := strings.Cut(string(b[8:min(len(b), 8+4096)]), "\x00")
	return ok && strings.HasSuffix(path, ".da")
}
