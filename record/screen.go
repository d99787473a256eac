//go:build linux

package record

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"footfall/output"
)

// A screen is a terminal, which shows calls far more slowly than they come. Once
// the user has interrupted footfall it shows no more.
type screen struct {
	w      io.Writer
	ctx    context.Context
	inLine bool
	unseen int // lines
}

// Write writes whole lines, a few at a time, so that an interrupt is soon heeded.
func (s *screen) Write(b []byte) (int, error) {
	const most = 4096
	all := len(b)
	for len(b) > 0 {
		n := len(b)
		if n > most {
			if n = bytes.LastIndexByte(b[:most], '\n') + 1; n == 0 {
				n = most
			}
		}
		if s.ctx.Err() != nil && !s.inLine {
			s.unseen += bytes.Count(b, []byte{'\n'})
			return all, nil
		}
		if s.ctx.Err() != nil { // to the end of the line
			if i := bytes.IndexByte(b, '\n'); i >= 0 {
				n = i + 1
			}
		}
		if _, err := s.w.Write(b[:n]); err != nil {
			return 0, err
		}
		s.inLine = b[n-1] != '\n'
		b = b[n:]
	}
	return all, nil
}

// sayUnseen says how much was not shown.
func (s *screen) sayUnseen(stderr io.Writer) {
	if s != nil && s.unseen > 0 {
		fmt.Fprintf(stderr, "footfall: the last %s are not shown: the terminal was too slow; --output graph=FILE has all\n", output.Count(s.unseen, "line", "lines"))
	}
}
