package tracefiles

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"

	"footfall/input"
)

// A stream is a file as it comes, decompressed if need be, of at most [input.Most]
// bytes.
type stream struct {
	from     io.Reader
	zip      gzip.Reader
	buf      []byte
	pos, end int   // what of buf is still to come
	lines    int   // that have been taken
	base     int64 // offset of buf[0]
	err      error
}

// chunk is how much is read at a time.
const chunk = 1 << 18

// open begins with another file.
func (in *stream) open(from io.Reader) error {
	if in.buf == nil {
		in.buf = make([]byte, chunk)
	}
	in.from, in.pos, in.end, in.lines, in.base, in.err = input.Limit(from), 0, 0, 0, 0, nil
	in.fill()
	if head := in.peek(); len(head) > 2 && head[0] == 0x1f && head[1] == 0x8b {
		if err := in.zip.Reset(io.MultiReader(bytes.NewReader(bytes.Clone(head)), from)); err != nil {
			return err
		}
		in.from, in.pos, in.end, in.err = input.Limit(&in.zip), 0, 0, nil
		in.fill()
	}
	if bytes.HasPrefix(in.peek(), []byte("\xef\xbb\xbf")) { // some editors' mark
		in.pos += 3
	}
	return in.failed()
}

// failed returns the error of reading, nil at the end of the file.
func (in *stream) failed() error {
	if in.err == nil || errors.Is(in.err, io.EOF) {
		return nil
	}
	return withoutPath(in.err)
}

// offset is that of the next byte, after decompression.
func (in *stream) offset() int64 { return in.base + int64(in.pos) }

// peek returns what is there without reading more.
func (in *stream) peek() []byte { return in.buf[in.pos:in.end] }

// fill reads more behind what is there. It reports whether there is more.
func (in *stream) fill() bool {
	if in.err != nil {
		return false
	}
	copy(in.buf, in.buf[in.pos:in.end])
	in.base += int64(in.pos)
	in.pos, in.end = 0, in.end-in.pos
	if in.end == len(in.buf) {
		in.buf = append(in.buf, make([]byte, len(in.buf))...)
	}
	// A few reads may bring nothing.
	for range 100 {
		n, err := in.from.Read(in.buf[in.end:])
		in.end += n
		in.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	in.err = io.ErrNoProgress
	return false
}

// longestLine is more than the longest name of a function.
const longestLine = 1 << 24

var errLongLine = errors.New("a line of more than 16 MiB, expected records of text")

// line returns the next line without its end, until ok is false. It is good
// until the next call.
func (in *stream) line() (line []byte, ok bool) {
	searched := 0
	for {
		rest := in.peek()
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			i += searched
			in.pos += i + 1
			in.lines++
			return bytes.TrimSuffix(rest[:i], []byte("\r")), true
		}
		if len(rest) > longestLine {
			in.err = errLongLine
			return nil, false
		}
		searched = len(rest)
		if !in.fill() {
			rest = in.peek()
			in.pos = in.end
			if len(rest) > 0 {
				in.lines++
			}
			return rest, len(rest) > 0
		}
	}
}
