package llvm

import (
	"bytes"
	"io"
	"path"
	"strings"
	"testing"

	"footfall/formats/llvm/fixtures"
)

// seeds are small files of all versions.
func seeds(f *testing.F, ext string, most int) {
	for _, fx := range fixtures.All(f) {
		for name, b := range fx.Files {
			if (path.Ext(name) == ext || ext == "" && (name == "main" || strings.HasSuffix(name, ".a"))) && len(b) <= most {
				f.Add(b)
			}
		}
		if run := fx.Run("pd-merge-text"); ext == ".profdata" && run != nil {
			if b := run.Files["out/m.txt"]; len(b) <= most {
				f.Add([]byte(b))
			}
		}
	}
}

// FuzzProfile reads bytes as profiles, and adds up what it gets: no more than a multiple of the bytes.
func FuzzProfile(f *testing.F) {
	seeds(f, ".profraw", 4096)
	seeds(f, ".profdata", 4096)
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := Read(b)
		size := 0
		for _, p := range list {
			for _, c := range p.Counted {
				size += 64 + 8*len(c.Counts) + len(c.Bitmap) + len(c.Name)
				for _, sites := range c.Values {
					for _, s := range sites {
						size += 24 + 16*len(s)
					}
				}
			}
			x := new(Indexer)
			if _, err := x.AddWeighted(p.Clone(), 3); err != nil {
				t.Error(err)
			}
			x.Text(19, true)
			x.Index(23, false)
			sum := NewSum()
			if _, err := sum.Add(p); err != nil {
				t.Error(err)
			}
		}
		if most := 64*len(b) + 1<<17; size > most {
			t.Errorf("%d bytes of %d", size, len(b))
		}
	})
}

// FuzzBinary reads bytes as a binary, with a profile in which everything ran.
func FuzzBinary(f *testing.F) {
	seeds(f, "", 100_000)
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := ReadBinaries("fuzz", bytes.NewReader(b), int64(len(b)), "")
		tryBinaries(list)
	})
}

// FuzzMapping reads bytes as the sections of a mapping.
func FuzzMapping(f *testing.F) {
	for _, fx := range fixtures.All(f) {
		if fx.Run("export-lcov") == nil || strings.Contains(fx.Program, "archive") {
			continue
		}
		for _, b := range binariesOf(f, fx, []string{"main"}) {
			for _, r := range b.Records {
				f.Add(r.mapping, byte(b.Mapped[0]), byte(len(r.unit.files)))
			}
		}
	}
	f.Fuzz(func(t *testing.T, mapping []byte, version, files byte) {
		u := &unit{version: int(version)}
		for range files {
			u.files = append(u.files, "file.c")
		}
		r := &Record{NameHash: HashOf("f"), mapping: mapping, unit: u, binary: new(Binary), dummy: isDummy(mapping)}
		tryBinaries([]*Binary{{Name: "fuzz", Records: []*Record{r}}})
	})
}

func tryBinaries(list []*Binary) {
	p := &Profile{}
	for _, b := range list {
		for i, r := range b.Records {
			c := Counted{NameHash: r.NameHash, Hash: r.Hash, Counts: make([]uint64, 64), Bitmap: bytes.Repeat([]byte{0xff}, 64)}
			for j := range c.Counts {
				c.Counts[j] = uint64(i + j*j)
			}
			p.Counted = append(p.Counted, c)
		}
	}
	for _, version := range []int{11, 19, 23} {
		c := Load(list, p, Rules{Version: version})
		_ = c.WriteLcov(io.Discard, LcovOptions{Files: c.Files()})
		_ = c.WriteJSON(io.Discard, JSONOptions{Files: c.Files()})
		for _, f := range c.Functions {
			for d, lines := c.FunctionData(f), 0; ; lines++ {
				l := c.NewLines(d.Segments)
				if _, more := l.Next(); !more || lines > 1000 {
					break
				}
			}
		}
	}
	sum := NewSum()
	_, _ = sum.Add(p)
	var images []Image
	for _, b := range list {
		images = append(images, Image{Binary: b, Counts: sum})
	}
	Collect(images, CollectOptions{Source: anySource})
}
