package input

import (
	"fmt"
	"io"
	"sync/atomic"
)

// most is how many bytes are read of one file that is read as a stream.
var most atomic.Int64

// DefaultMost is the limit without --max-input.
const DefaultMost = 4 << 30

func init() { most.Store(DefaultMost) }

// Most is how many bytes are read of one input, unpacked.
func Most() int64 { return most.Load() }

// SetMost sets the limit, as --max-input does.
func SetMost(bytes int64) { most.Store(bytes) }

// A TooLargeError tells that an input has more bytes than are read of one.
type TooLargeError struct{ Most int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("has more than %d bytes when it is unpacked: --max-input allows more", e.Most)
}

// Limit returns a reader of what r unpacks that fails where there is more than
// [Most].
func Limit(r io.Reader) io.Reader { return &limited{r: r, left: Most(), most: Most()} }

type limited struct {
	r          io.Reader
	left, most int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if int64(n) > l.left {
		n, err = int(l.left), &TooLargeError{l.most}
	}
	l.left -= int64(n)
	return n, err
}
