package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	pprof "github.com/google/pprof/profile"
	"github.com/klauspost/compress/gzip"

	"footfall/input"
)

// parsePprof reads a profile of pprof's format, compressed or not. What reads it
// takes many times its size, and begins when all is unpacked: so it is looked at
// while it is.
func parsePprof(data []byte) (*pprof.Profile, error) {
	from := io.Reader(bytes.NewReader(data))
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(from)
		if err != nil {
			return nil, err
		}
		from = z
	}
	whole, scan := new(bytes.Buffer), pprofScan{}
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		whole.Write(buf[:n])
		scan.add(buf[:n])
		switch {
		case int64(whole.Len()) > mostWhole():
			return nil, &input.TooLargeError{Most: mostWhole()}
		case scan.err != nil && whole.Len() > mostLegacy:
			return nil, scan.err
		case err == io.EOF && scan.err == nil:
			p, err := pprof.ParseUncompressed(whole.Bytes())
			if err == nil {
				err = p.CheckValid()
			}
			return p, err
		case err == io.EOF:
			return pprof.ParseData(whole.Bytes()) // one of the formats before
		case err != nil:
			return nil, err
		}
	}
}

// mostWhole is how many bytes there may be of what is not read as a stream.
func mostWhole() int64 { return input.Most() / 4 }

// mostLegacy is more than there is of the formats that pprof had before, which
// are text.
const mostLegacy = 16 << 20

// A pprofScan goes through the outermost messages of a profile as it comes:
//
//	tag: number of the field << 3 | 0: a number, 1: 8 bytes, 2: length and so many bytes, 5: 4 bytes
//
// tag, number and length are varints.
type pprofScan struct {
	head     []byte // of a message that is not complete
	skip     uint64 // bytes that are left of a message
	bytes    int64
	messages int64
	err      error
}

// fewMessages is how many there may be whatever their size.
const fewMessages = 1 << 20

func (s *pprofScan) add(b []byte) {
	s.bytes += int64(len(b))
	for len(b) > 0 && s.err == nil {
		if s.skip > 0 {
			n := min(s.skip, uint64(len(b)))
			b, s.skip = b[n:], s.skip-n
			continue
		}
		s.head = append(s.head, b[0])
		b = b[1:]
		s.begin()
	}
}

// begin takes the head of a message, if it is complete.
func (s *pprofScan) begin() {
	tag, n := binary.Uvarint(s.head)
	if n == 0 && len(s.head) < binary.MaxVarintLen64 {
		return
	}
	if n <= 0 || tag>>3 == 0 {
		s.err = errors.New("no profile of pprof's format")
		return
	}
	switch kind := tag & 7; kind {
	case 1:
		s.skip = 8
	case 5:
		s.skip = 4
	case 0, 2:
		value, m := binary.Uvarint(s.head[n:])
		if m == 0 && len(s.head)-n < binary.MaxVarintLen64 {
			return
		}
		if m < 0 || m == 0 {
			s.err = errors.New("no profile of pprof's format")
			return
		}
		if kind == 2 {
			s.skip = value
		}
	default:
		s.err = errors.New("no profile of pprof's format")
		return
	}
	s.head = s.head[:0]
	// Each becomes a structure, also where there is nothing in it.
	if s.messages++; s.messages > fewMessages && s.messages*8 > s.bytes {
		s.err = fmt.Errorf("%d messages in %d bytes: no profile has so many of next to nothing", s.messages, s.bytes)
	}
}
