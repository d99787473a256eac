//go:build linux

package record

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// interrupter is interrupted by the nth write.
type interrupter struct {
	bytes.Buffer
	n      int
	cancel func()
}

func (i *interrupter) Write(b []byte) (int, error) {
	if i.n--; i.n == 0 {
		i.cancel()
	}
	return i.Buffer.Write(b)
}

// TestScreen checks that a terminal shows whole lines, and none after an
// interrupt.
func TestScreen(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	ctx, cancel := context.WithCancel(context.Background())
	w := &interrupter{n: 3, cancel: cancel}
	s := &screen{w: w, ctx: ctx}
	for range 10 {
		text := strings.Repeat(line, 100)
		s.Write([]byte(text[:50]))
		if n, err := s.Write([]byte(text[50:])); n != len(text)-50 || err != nil {
			t.Fatal(n, err)
		}
	}
	if shown := strings.Count(w.String(), line); w.String() != strings.Repeat(line, shown) || shown < 80 || shown > 130 || shown+s.unseen != 1000 {
		t.Errorf("%d bytes, %d lines are shown, %d are not", w.Len(), shown, s.unseen)
	}
}
