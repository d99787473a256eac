//go:build linux

package collect

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math"
	"slices"
)

// A nameTable has the names of functions, packed. The zero table is empty. It is for one goroutine.
type nameTable struct {
	size   uint64      // of all names, unpacked
	last   []byte      // names that are not packed yet
	chunks []nameChunk // packed

	chunk int    // whose names are in names; -1: none
	names []byte // unpacked
	all   []byte // of all chunks, while it is open
}

// A nameChunk is names that are packed together, each ended by 0.
type nameChunk struct {
	first  uint64 // where they are in all
	packed []byte
}

// A nameNumber is where among the names of a table one is, behind noNames. Below, there is none, and it is free for what is to be
// known of what has none.
type nameNumber uint32

const noNames nameNumber = 16

// mostNames is how many bytes are packed together, and a name more: what is unpacked for one name.
const mostNames = 1 << 16

// add adds a name, which is not empty; one that has no room is none.
func (t *nameTable) add(name string) nameNumber {
	n := t.size + uint64(noNames)
	if n > math.MaxUint32 {
		return 0
	}
	t.last = append(append(t.last, name...), 0)
	t.size += uint64(len(name)) + 1
	if len(t.last) >= mostNames {
		t.pack()
	}
	return nameNumber(n)
}

// pack packs what has been added.
func (t *nameTable) pack() {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(t.last)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // memory does not fail
	}
	t.chunks = append(t.chunks, nameChunk{t.size - uint64(len(t.last)), bytes.Clone(packed.Bytes())})
	t.last, t.chunk = t.last[:0], -1
}

// done packs the rest: nothing is added any more.
func (t *nameTable) done() {
	t.pack()
	t.last = nil
}

// at returns a name; "" if there is none.
func (t *nameTable) at(n nameNumber) string {
	if n < noNames {
		return ""
	}
	at := uint64(n - noNames)
	names := t.all
	if names == nil {
		i, found := slices.BinarySearchFunc(t.chunks, at, func(c nameChunk, at uint64) int {
			if c.first < at {
				return -1
			}
			return int(min(c.first-at, 1))
		})
		if !found {
			i--
		}
		if t.chunk != i {
			t.chunk, t.names = i, t.chunks[i].unpack(t.names[:0])
		}
		names, at = t.names, at-t.chunks[i].first
	}
	names = names[at:]
	return string(names[:bytes.IndexByte(names, 0)])
}

// open unpacks all names, for who asks for many, in any order, until close is called.
func (t *nameTable) open() (close func()) {
	if t.all != nil {
		return func() {}
	}
	t.all = make([]byte, 0, t.size)
	for i := range t.chunks {
		t.all = t.chunks[i].unpack(t.all)
	}
	return func() { t.all, t.names, t.chunk = nil, nil, -1 }
}

// unpack appends the names of a chunk.
func (c *nameChunk) unpack(to []byte) []byte {
	b := bytes.NewBuffer(to)
	if _, err := io.Copy(b, flate.NewReader(bytes.NewReader(c.packed))); err != nil {
		panic(fmt.Sprint("names that were packed: ", err))
	}
	return b.Bytes()
}
