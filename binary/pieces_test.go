package binary

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
)

// TestPieces reads sections a piece at a time: what is read is what there is.
func TestPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := newPieces(64, 4)
	var whole [][]byte
	addr := uint64(0x1000)
	for _, size := range []int{1, 63, 64, 65, 1000, 4096} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		whole = append(whole, b)
		p.sections = append(p.sections, pieceSection{addr, uint64(size), bytes.NewReader(b)})
		addr += uint64(size) + uint64(random.IntN(2)) // some follow each other
	}
	other := p.another()
	for range 100_000 {
		n := random.IntN(len(whole))
		at, most := random.IntN(len(whole[n])), random.IntN(200)
		want := whole[n][at:min(at+most, len(whole[n]))]
		from := p.sections[n].addr + uint64(at)
		if got := p.at(from, most); !bytes.Equal(got, want) || p.rest(from) != uint64(len(whole[n])-at) || !p.has(from) {
			t.Fatalf("section %d of %d bytes, %d at %d: %x, want %x", n, len(whole[n]), most, at, got, want)
		}
	}
	if last := p.sections[len(whole)-1]; p.at(last.addr+last.size, 1) != nil || p.has(0xfff) || p.rest(0xfff) != 0 || p.failed.Load() {
		t.Error("there is something where no section is")
	}
	if b := other.at(0x1000, 1); !bytes.Equal(b, whole[0]) {
		t.Errorf("another one has %x, want %x", b, whole[0])
	}
}

// TestSectionsShort opens a file that ends before its code does.
func TestSectionsShort(t *testing.T) {
	short := madeSection{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, bytes: []byte{0xc3}, size: 1 << 20}
	f, err := Open(bytes.NewReader(madeFile(short)))
	if err == nil {
		_, err = f.ExitFinder(nil, nil)
	}
	if err == nil {
		t.Error("code of which most is missing is read")
	}
}

// A failing file cannot be read any more when fails is set.
type failing struct {
	io.ReaderAt
	fails *atomic.Bool
}

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if f.fails.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return f.ReaderAt.ReadAt(b, at)
}

// TestUnread looks at a program that becomes shorter meanwhile: then nothing is said of it.
func TestUnread(t *testing.T) {
	_, name := exitFinder(t, "-O2")
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var fails atomic.Bool
	f, err := Open(failing{bytes.NewReader(file), &fails})
	if err != nil {
		t.Fatal(err)
	}
	names, err := f.Functions()
	if err != nil {
		t.Fatal(err)
	}
	for late := range 2 { // before functions are looked at, or afterwards
		fails.Store(false)
		x, err := f.ExitFinder(names, nil)
		if err != nil {
			t.Fatal(err)
		}
		if late == 0 {
			fails.Store(true)
		}
		e := x.EntryFinder()
		fails.Store(true)
		e.code = e.code.another() // has nothing in memory
		for _, fn := range e.Functions() {
			if _, err := e.Window(fn); err == nil {
				t.Errorf("%d: %s has a window", late, fn.Name)
			}
			if _, err := e.Exits(fn, [2]uint64{fn.Addr, fn.Addr}, false); err == nil {
				t.Errorf("%d: exits of %s are known", late, fn.Name)
			}
		}
		divided := e.Divide()
		for _, fn := range divided {
			if !errors.Is(fn.Err, errUnread) || len(fn.Blocks) > 0 {
				t.Errorf("%d: %s has %d blocks, %v", late, fn.Function.Name, len(fn.Blocks), fn.Err)
			}
		}
		if len(divided) == 0 {
			t.Errorf("%d: there are no functions", late)
		}
	}
}
