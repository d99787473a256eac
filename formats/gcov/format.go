// Package gcov reads and writes the notes (.gcno) and data (.gcda) files of
// GCC 3.4 to 16 and of Clang's --coverage, solves the flow graphs in them for
// the counts of all arcs and blocks, and says what became of each source line:
// as gcov's own listings, to the byte, or as a coverage.Set. It also reads the
// .bb, .bbg and .da files of GCC 2.91 to 3.3, merges data files as gcov-tool does
// and prints records as gcov-dump does.
//
// It knows nothing about processes or about where files are found; bytes come
// in as slices. Only where it does what a whole program does ([Run], [RunTool])
// does it open files itself.
//
// # The files
//
// Both kinds are sequences of 32-bit words in the byte order of the target
// that wrote them; the magic word tells it. A 64-bit number is two words, low
// word first, on every machine. After a head come records:
//
//	+-----+--------+----------------+
//	| tag | length | length of data |  ...  until a tag of 0 or the end
//	+-----+--------+----------------+
//
// The length counts words before GCC 12, bytes since. A string is a length in
// the same unit, then the text with its NUL; before GCC 12 it is padded to a
// word. Tags nest: those of a function's records begin with the same byte.
//
// # Errors
//
// Bad bytes give a *[FormatError] with the offset; what was read until there
// is returned with it.
package gcov

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	NotesMagic = 0x67636e6f // "gcno"
	DataMagic  = 0x67636461 // "gcda"

	TagFunction       = 0x01000000
	TagBlocks         = 0x01410000
	TagArcs           = 0x01430000
	TagLines          = 0x01450000
	TagConditions     = 0x01470000
	TagPaths          = 0x01490000
	TagCounters       = 0x01a10000 // + kind<<17
	TagObjectSummary  = 0xa1000000
	TagProgramSummary = 0xa3000000
)

// A FormatError tells what is wrong with the bytes of a file, and where.
type FormatError struct {
	Offset int64  // in bytes from the start of the file
	Msg    string // what was found, and what was expected
}

func (e *FormatError) Error() string { return fmt.Sprintf("at offset %#x: %s", e.Offset, e.Msg) }

// A record is one that this package does not interpret, kept to be written
// back.
type record struct {
	tag  uint32
	data []byte // in file order, shared with the bytes read
}

// A reader takes words off a slice. After the first failure it returns zeros
// and keeps the error.
type reader struct {
	b     []byte
	pos   int
	base  int64 // offset of b[0] in the file
	big   bool
	bytes bool // lengths count bytes (GCC 12 and later)
	err   *FormatError
}

func (r *reader) fail(pos int, format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{r.base + int64(pos), fmt.Sprintf(format, args...)}
	}
}

// result is the error as an error: nil when there was none.
func (r *reader) result() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

func (r *reader) word() uint32 {
	if len(r.b)-r.pos < 4 {
		r.fail(r.pos, "file ends here, expected a 32-bit word")
		r.pos = len(r.b)
		return 0
	}
	p := r.b[r.pos : r.pos+4]
	r.pos += 4
	if r.big {
		return binary.BigEndian.Uint32(p)
	}
	return binary.LittleEndian.Uint32(p)
}

func (r *reader) counter() int64 {
	lo := r.word()
	return int64(uint64(r.word())<<32 | uint64(lo))
}

// size turns a record or string length into bytes.
func (r *reader) size(length uint32) int {
	if r.bytes {
		return int(length)
	}
	return int(length) * 4
}

// text returns the bytes of a string without its NULs.
func (r *reader) text() []byte {
	start := r.pos
	n := r.size(r.word())
	if n > len(r.b)-r.pos {
		r.fail(start, "string of %d bytes, but only %d are left", n, len(r.b)-r.pos)
		r.pos = len(r.b)
		return nil
	}
	s := r.b[r.pos : r.pos+n]
	r.pos += n
	if i := bytes.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}

// EmptyName stands for the name "" of a source, as "#line 3 \"\"" gives it. It is
// something else than no name, which ends a list of lines. No name that was read
// has a NUL.
const EmptyName = "\x00"

// source returns the name of a source, emptyName if it is "".
func (r *reader) source() []byte {
	start := r.pos
	name := r.text()
	if len(name) == 0 && r.err == nil && r.pos > start+4 {
		return []byte(EmptyName)
	}
	return name
}

// next reads the tag and length of a record and returns a reader of its data.
// ok is false at the end: of the bytes, at a tag of 0, or after an error.
func (r *reader) next() (tag, length uint32, data reader, ok bool) {
	if r.pos == len(r.b) || r.err != nil {
		return 0, 0, reader{}, false
	}
	start := r.pos
	if tag = r.word(); tag == 0 {
		r.pos = start
		return 0, 0, reader{}, false
	}
	length = r.word()
	n := r.size(length)
	if int32(length) < 0 && tag&0xff000000 == TagFunction&0xff000000 {
		n = 0 // so many zero counters, without data
	}
	if r.err == nil && n > len(r.b)-r.pos {
		r.fail(start, "record %08x of %d bytes, but only %d are left: the file is cut off", tag, n, len(r.b)-r.pos)
	}
	if r.err != nil {
		return 0, 0, reader{}, false
	}
	data = *r
	data.b = r.b[r.pos : r.pos+n]
	data.pos, data.base = 0, r.base+int64(r.pos)
	r.pos += n
	return tag, length, data, true
}

// magic reads the first word and sets the byte order from it.
func (r *reader) magic(want uint32, kind string) {
	r.big = false
	switch m := r.word(); m {
	case want:
	case swap(want):
		r.big = true
	default:
		r.err = nil
		r.fail(0, "not a gcov %s file", kind)
	}
}

func swap(w uint32) uint32 { return w<<24 | w<<8&0xff0000 | w>>8&0xff00 | w>>24 }

// A writer appends words to a slice.
type writer struct {
	b     []byte
	big   bool
	bytes bool
}

func (w *writer) word(x uint32) {
	if w.big {
		w.b = binary.BigEndian.AppendUint32(w.b, x)
	} else {
		w.b = binary.LittleEndian.AppendUint32(w.b, x)
	}
}

func (w *writer) counter(x int64) {
	w.word(uint32(x))
	w.word(uint32(uint64(x) >> 32))
}

// text writes a string; the empty one as a length of 0.
func (w *writer) text(s string) {
	switch {
	case s == "":
		w.word(0)
	case s == EmptyName && w.bytes:
		w.word(1)
		w.b = append(w.b, 0)
	case s == EmptyName:
		w.word(1)
		w.word(0)
	case w.bytes:
		w.word(uint32(len(s) + 1))
		w.b = append(append(w.b, s...), 0)
	default:
		n := len(s)/4 + 1
		w.word(uint32(n))
		w.b = append(append(w.b, s...), make([]byte, n*4-len(s))...)
	}
}

// open writes a tag and room for the length; close fills in the length.
func (w *writer) open(tag uint32) (mark int) {
	w.word(tag)
	w.word(0)
	return len(w.b)
}

func (w *writer) close(mark int) {
	n := len(w.b) - mark
	if !w.bytes {
		n /= 4
	}
	end := w.b
	w.b = w.b[:mark-4]
	w.word(uint32(n))
	w.b = end
}

func (w *writer) records(rs []record) {
	for _, rec := range rs {
		mark := w.open(rec.tag)
		w.b = append(w.b, rec.data...)
		w.close(mark)
	}
}

// IsMagic tells whether a file begins with want, in either byte order.
func IsMagic(b []byte, want uint32) bool {
	r := reader{b: b}
	r.magic(want, "")
	return r.err == nil
}
