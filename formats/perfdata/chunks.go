package perfdata

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"footfall/input"
)

// A Chunk is some whole records of a file. It is not used again for others.
type Chunk struct {
	// Order is larger for later chunks: where their first record is among all bytes
	// of records. It stands for the time where records have none.
	Order  uint64
	b      []byte
	offset int64 // in the file; of compressed ones, of what they are in
}

// records calls visit with each record.
//
//	u32 type, u16 misc, u16 size with this header
func (f *Recording) records(c Chunk, visit func(r record)) {
	for b := c.b; len(b) >= recordHeader; {
		n := int(f.Order.Uint16(b[6:]))
		visit(record{f.Order.Uint32(b), f.Order.Uint16(b[4:]), b[recordHeader:n:n], c.Order + uint64(len(c.b)-len(b))})
		b = b[n:]
	}
}

type record struct {
	kind  uint32
	misc  uint16
	body  []byte // what follows the header
	order uint64 // see [Chunk]
}

const (
	recordHeader = 8
	chunkSize    = 1 << 20
)

// Chunks calls visit with all records, some MB at a time. An error of visit ends it.
func (f *Recording) Chunks(visit func(Chunk) error) error {
	var damage error
	order := uint64(0)
	for _, p := range f.parts {
		outer := &chunker{f: f, r: io.NewSectionReader(p.r, p.begin, p.end-p.begin), at: p.begin, end: p.end}
		err := f.chunks(outer, func(c Chunk) error {
			c.Order = order
			order += uint64(len(c.b))
			return visit(c)
		})
		var damaged *FormatError
		switch {
		case errors.As(err, &damaged):
			damaged.Part = p.name
			damage = cmp.Or(damage, err)
		case err != nil:
			return err
		}
	}
	return damage
}

// chunks reads a part, up to where compressed records begin.
func (f *Recording) chunks(outer *chunker, visit func(Chunk) error) error {
	for {
		c, err := outer.next()
		if len(c.b) > 0 {
			if err := visit(c); err != nil {
				return err
			}
			if f.hasCompressed(c) {
				return f.inflate(&inflater{outer: outer, chunk: c.b, err: err, at: c.offset}, visit)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// inflate reads a part on, with what was compressed.
func (f *Recording) inflate(in *inflater, visit func(Chunk) error) error {
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
	if err != nil {
		return &FormatError{Offset: in.at, Text: fmt.Sprintf("compressed records: %v", err)}
	}
	defer z.Close()
	inner := &chunker{f: f, r: input.Limit(z), inflate: true}
	for {
		c, err := inner.next()
		c.offset = in.at
		for _, c := range append(in.passed, c) {
			if len(c.b) == 0 {
				continue
			}
			if err := visit(c); err != nil {
				return err
			}
		}
		in.passed = nil
		var damaged *FormatError
		switch {
		case err == nil:
		case in.err != nil && in.err != io.EOF:
			return in.err
		case errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF:
			return nil // perf does not end its last frame
		case errors.As(err, &damaged):
			return &FormatError{Offset: in.at, Text: "compressed records: " + damaged.Text}
		default:
			return &FormatError{Offset: in.at, Text: fmt.Sprintf("compressed records: %v", err)}
		}
	}
}

// mostWindow is what zstd's highest level needs.
const mostWindow = 128 << 20

func (f *Recording) hasCompressed(c Chunk) (found bool) {
	f.records(c, func(r record) { found = found || r.kind == recordCompressed || r.kind == recordCompressed2 })
	return found
}

// A chunker cuts a stream of records.
type chunker struct {
	f       *Recording
	r       io.Reader
	at, end int64 // of the next byte to read, and of the last
	rest    []byte
	skip    uint64 // bytes that belong to the last record, but are not in it
	err     error
	inflate bool
}

// next returns the next chunk; with an error, what came before it.
func (c *chunker) next() (Chunk, error) {
	for c.err == nil || len(c.rest) > 0 {
		if c.skip > 0 && !c.pass() {
			return Chunk{}, c.err
		}
		b := make([]byte, max(len(c.rest), min(chunkSize, len(c.rest)+int(c.left()))))
		n := copy(b, c.rest)
		if c.err == nil {
			var m int
			m, c.err = io.ReadFull(c.r, b[n:])
			if c.err == io.ErrUnexpectedEOF && m < len(b)-n && !c.inflate {
				c.err = io.EOF
			}
			c.at += int64(m)
			n += m
		}
		b = b[:n]
		begin := c.at - int64(n)
		k, err := c.whole(b)
		c.rest = b[k:]
		if err != nil {
			err.Offset = begin + int64(k)
			c.rest, c.err = nil, err
		} else if c.err != nil && c.skip == 0 && len(c.rest) > 0 {
			if c.err == io.EOF {
				c.err = &FormatError{Offset: begin + int64(k), Text: fmt.Sprintf("the file ends amid a record: %d bytes of it are there", len(c.rest))}
			}
			c.rest = nil
		}
		if k > 0 {
			return Chunk{b: b[:k:k], offset: begin}, nil
		}
		if len(b) == 0 {
			break
		}
	}
	return Chunk{}, c.err
}

// left is how many bytes there are to read, at most.
func (c *chunker) left() int64 {
	if c.inflate {
		return chunkSize
	}
	return min(max(c.end-c.at, 1), chunkSize)
}

// pass goes on by what is to be skipped.
func (c *chunker) pass() bool {
	n := min(c.skip, uint64(len(c.rest)))
	c.rest, c.skip = c.rest[n:], c.skip-n
	for c.skip > 0 && c.err == nil {
		var m int64
		m, c.err = io.CopyN(io.Discard, c.r, int64(min(c.skip, 1<<30)))
		c.skip -= uint64(m)
		c.at += m
	}
	if c.skip > 0 {
		if c.err == io.EOF {
			c.err = &FormatError{Offset: c.at, Text: fmt.Sprintf("the file ends %d bytes before its last record does", c.skip)}
		}
		c.rest = nil
		return false
	}
	return true
}

// whole returns how many bytes at the begin of b are whole records, and sets skip if
// more bytes belong to the last one.
func (c *chunker) whole(b []byte) (int, *FormatError) {
	for k := 0; ; {
		if len(b)-k < recordHeader {
			return k, nil
		}
		n := int(c.f.Order.Uint16(b[k+6:]))
		if n < recordHeader {
			return k, &FormatError{Text: fmt.Sprintf("a record of %d bytes, expected at least %d", n, recordHeader)}
		}
		if len(b)-k < n {
			return k, nil
		}
		body := cursor{b: b[k+recordHeader : k+n], order: c.f.Order}
		k += n
		switch c.f.Order.Uint32(b[k-n:]) {
		case recordAuxTrace:
			c.skip = body.u64()
		case recordTracing:
			c.skip = uint64(body.u32())
		}
		if c.skip > 0 {
			return k, nil
		}
	}
}

// An inflater is the compressed part of records, as one stream. The records
// themselves are in passed, as there are others among them.
type inflater struct {
	outer   *chunker
	chunk   []byte // what is not used of the current chunk
	payload []byte
	passed  []Chunk
	at      int64
	err     error
}

func (in *inflater) Read(b []byte) (int, error) {
	for len(in.payload) == 0 {
		if len(in.chunk) == 0 {
			if in.err != nil {
				return 0, io.EOF
			}
			var c Chunk
			c, in.err = in.outer.next()
			in.chunk, in.at = c.b, c.offset
			if len(c.b) > 0 {
				in.passed = append(in.passed, c)
			}
			continue
		}
		order := in.outer.f.Order
		n := int(order.Uint16(in.chunk[6:]))
		body := in.chunk[recordHeader:n]
		switch order.Uint32(in.chunk) {
		case recordCompressed:
			in.payload = body
		case recordCompressed2: // its size, then padding
			c := cursor{b: body, order: order}
			in.payload = c.take(c.u64())
		}
		in.chunk = in.chunk[n:]
	}
	n := copy(b, in.payload)
	in.payload = in.payload[n:]
	return n, nil
}
