package exe

import (
	"encoding/binary"
	"os"
	"testing"
)

// systemFrames returns the call frames of a C library's file, which has rules of
// every kind.
func systemFrames(tb testing.TB) (*File, *CallFrames) {
	tb.Helper()
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6"} {
		r, err := os.Open(name)
		if err != nil {
			continue
		}
		tb.Cleanup(func() { r.Close() })
		f, err := Open(r)
		if err != nil {
			tb.Fatal(err)
		}
		c, err := f.CallFrames()
		if err != nil || c == nil {
			tb.Fatalf("%s: %v", name, err)
		}
		return f, c
	}
	tb.Skip("no C library of the GNU project here")
	return nil, nil
}

func TestCallFramesCoverTheCLibrary(t *testing.T) {
	f, c := systemFrames(t)
	functions, err := f.Functions()
	if err != nil {
		t.Fatal(err)
	}
	with, without := 0, 0
	for _, fn := range functions {
		if fn.Size < 16 {
			continue
		}
		if row, ok := c.Row(fn.Addr); ok && (row.CFA.Kind == RuleRegister || row.CFA.Kind == RuleExpression) {
			with++
		} else {
			without++
		}
	}
	if with < 1000 || without*100 > with {
		t.Errorf("%d functions have rules, %d have none", with, without)
	}
}

func FuzzCallFrames(f *testing.F) {
	_, c := systemFrames(f)
	f.Add(c.data[:min(len(c.data), 4000)], uint64(0x1000))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		c := &CallFrames{order: binary.LittleEndian, wide: true, addr: 0x1000, data: b, common: make(map[uint64]*commonFrames)}
		c.index()
		for _, code := range c.codes {
			c.Row(code.low)
			c.Row(code.high - 1)
		}
		c.Row(addr)
	})
}
