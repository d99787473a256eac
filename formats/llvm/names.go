package llvm

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"strings"
	"sync"

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
	u := unpackers.Get().(*unpacker)
	defer unpackers.Put(u)
	for r.nextBlock() {
		text, err := r.block(&room, u)
		if err != nil {
			return fmt.Errorf("names: %w", err)
		}
		n.addText(string(text))
	}
	return r.Err
}

func (n Names) addText(text string) {
	for name := range strings.SplitSeq(text, nameSeparator) {
		n[HashOf(name)] = name
	}
}

// nextBlock skips the zero bytes before a block, and tells whether there is one.
func (r *reader) nextBlock() bool {
	for r.Left() > 0 && r.B[r.At] == 0 {
		r.At++
	}
	return r.Left() > 0
}

// common is what binaries have in common, as it was read: names, and units. Those of a library that many programs are
// linked with, or of an object, are the same in all.
type common struct {
	seed  maphash.Seed
	mu    sync.Mutex
	names map[blockKey]Names // each block by itself
	units map[unitKey]*unit
}

func newCommon() *common {
	return &common{seed: maphash.MakeSeed(), names: make(map[blockKey]Names), units: make(map[unitKey]*unit)}
}

// A blockKey is a block of so many bytes with that hash.
type blockKey struct {
	hash uint64
	size int
}

// addNames adds the names of a section's blocks to a binary.
func (c *common) addNames(b *Binary, section []byte) error {
	r := &reader{cursor.Reader{B: section}}
	room := mostUnpacked(len(section))
	u := unpackers.Get().(*unpacker)
	defer unpackers.Put(u)
	for r.nextBlock() {
		start := r.At
		size, packed := r.Uleb(), r.Uleb()
		r.Bytes(cmp.Or(packed, size))
		if r.Err != nil {
			return fmt.Errorf("names: %w", r.Err)
		}
		block := r.B[start:r.At]
		key := blockKey{maphash.Bytes(c.seed, block), len(block)}
		c.mu.Lock()
		n := c.names[key]
		c.mu.Unlock()
		if n == nil {
			r.At = start
			text, err := r.block(&room, u)
			if err != nil {
				return fmt.Errorf("names: %w", err)
			}
			n = make(Names, bytes.Count(text, []byte(nameSeparator))+1)
			n.addText(string(text))
			c.mu.Lock()
			c.names[key] = n
			c.mu.Unlock()
		}
		b.addNames(n)
	}
	return r.Err
}

func (b *Binary) addNames(n Names) {
	switch {
	case b.own != nil:
		maps.Copy(b.own, n)
	case len(b.names) < mostBlocks:
		b.names = append(b.names, n)
	default:
		b.own = make(Names, 2*len(n))
		for _, n := range append(b.names, n) {
			maps.Copy(b.own, n)
		}
		b.names = []Names{b.own}
	}
}

// mostBlocks is how many are looked through for a name.
const mostBlocks = 16

// name is that of a hash, "" if it is not known.
func (b *Binary) name(hash uint64) string {
	for _, n := range b.names {
		if name, ok := n[hash]; ok {
			return name
		}
	}
	return ""
}

// nameCount is how many names there are, those that several objects have as often.
func (b *Binary) nameCount() (count int) {
	for _, n := range b.names {
		count += len(n)
	}
	return count
}

// block reads sizes, and as many bytes, unpacked by u if they are packed, until u unpacks others. room is what all
// blocks of a section may have.
func (r *reader) block(room *uint64, u *unpacker) ([]byte, error) {
	start := r.At
	size, packed := r.Uleb(), r.Uleb()
	if packed == 0 {
		return r.Bytes(size), r.Err
	}
	b := r.Bytes(packed)
	if r.Err != nil {
		return nil, r.Err
	}
	text, err := u.unpack(b, size, room)
	if err != nil {
		return nil, &FormatError{Offset: int64(start), Err: err}
	}
	return text, nil
}

// mostUnpacked is how many bytes are believed to have been packed into so many: names are alike, but not
// as a row of zeros is.
func mostUnpacked(packed int) uint64 { return 1<<16 + 100*uint64(packed) }

// An unpacker unpacks one block after another, in the same room.
type unpacker struct {
	packed bytes.Reader
	zlib   io.Reader
	out    bytes.Buffer
}

// unpackers are those that are not in use: each has a window of 32 kB, and tables.
var unpackers = sync.Pool{New: func() any { return new(unpacker) }}

func (u *unpacker) unpack(packed []byte, size uint64, room *uint64) ([]byte, error) {
	if size > mostUnpacked(len(packed)) || size > *room {
		return nil, fmt.Errorf("%d bytes are said to unpack to %d", len(packed), size)
	}
	*room -= size
	u.packed.Reset(packed)
	var err error
	if u.zlib == nil {
		u.zlib, err = zlib.NewReader(&u.packed)
	} else {
		err = u.zlib.(zlib.Resetter).Reset(&u.packed, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("zlib: %w", err)
	}
	u.out.Reset()
	if _, err := io.Copy(&u.out, io.LimitReader(u.zlib, int64(size)+1)); err != nil {
		return nil, fmt.Errorf("zlib: %w", err)
	}
	if uint64(u.out.Len()) != size {
		return nil, fmt.Errorf("%d bytes unpack to other than %d", len(packed), size)
	}
	return u.out.Bytes(), nil
}
