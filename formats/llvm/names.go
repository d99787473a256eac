package llvm

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zlib"

	"footfall/formats/cursor"
)

// Names are those of functions by their hashes, see HashOf.
type Names map[uint64]string

// nameSeparator stands between names of a block.
const nameSeparator = "\x01"

// add reads what __llvm_prf_names holds: blocks, one of each object file,
//
//	uncompressed size ULEB, compressed size ULEB (0: it is not), names separated by byte 1
//
// with zero bytes between them. A section may be one of several.
func (n Names) add(section []byte) error {
	r := &reader{cursor.Reader{B: section}}
	room := mostUnpacked(len(section))
	for {
		for r.Left() > 0 && section[r.At] == 0 {
			r.At++
		}
		if r.Left() == 0 {
			return r.Err
		}
		text, err := r.block(&room)
		if err != nil {
			return fmt.Errorf("names: %w", err)
		}
		for name := range strings.SplitSeq(string(text), nameSeparator) {
			n[HashOf(name)] = name
		}
	}
}

// block reads sizes, and as many bytes, unpacked if they are packed. room is what all blocks of a section may have.
func (r *reader) block(room *uint64) ([]byte, error) {
	start := r.At
	size, packed := r.Uleb(), r.Uleb()
	if packed == 0 {
		return r.Bytes(size), r.Err
	}
	b := r.Bytes(packed)
	if r.Err != nil {
		return nil, r.Err
	}
	text, err := unpack(b, size, room)
	if err != nil {
		return nil, &FormatError{Offset: int64(start), Err: err}
	}
	return text, nil
}

// mostUnpacked is how many bytes are believed to have been packed into so many: names are alike, but not
// as a row of zeros is.
func mostUnpacked(packed int) uint64 { return 1<<16 + 100*uint64(packed) }

func unpack(packed []byte, size uint64, room *uint64) ([]byte, error) {
	if size > mostUnpacked(len(packed)) || size > *room {
		return nil, fmt.Errorf("%d bytes are said to unpack to %d", len(packed), size)
	}
	*room -= size
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("zlib: %w", err)
	}
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(z, int64(size)+1)); err != nil {
		return nil, fmt.Errorf("zlib: %w", err)
	}
	if uint64(out.Len()) != size {
		return nil, fmt.Errorf("%d bytes unpack to other than %d", len(packed), size)
	}
	return out.Bytes(), nil
}
