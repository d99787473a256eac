package llvm

import (
	"bytes"
	"io"
	"testing"

	"footfall/formats/llvm/fixtures"
)

// BenchmarkExport does what llvm-cov export does with the largest of the test programs.
func BenchmarkExport(b *testing.B) {
	f := fixtures.Of(b, "clang-19/fmt-args")
	program := f.Files["main"]
	read := func() *Coverage {
		list, err := Read(f.Files["base.profdata"])
		if err != nil {
			b.Fatal(err)
		}
		binaries, err := ReadBinaries("main", bytes.NewReader(program), int64(len(program)), "")
		if err != nil {
			b.Fatal(err)
		}
		return Load(binaries, list[0], Rules{Version: 19})
	}
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read()
		}
	})
	c := read()
	b.Run("lcov", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = c.WriteLcov(io.Discard, LcovOptions{Files: c.Files()})
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = c.WriteJSON(io.Discard, JSONOptions{Files: c.Files()})
		}
	})
}
