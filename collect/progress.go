package collect

import (
	"fmt"
	"io"
	"time"

	"footfall/output"
)

// A progress shows on a terminal how far something is that takes long.
type progress struct {
	w           io.Writer // nil: it is shown to nobody
	things      string
	begin, last time.Time
}

func newProgress(w io.Writer, things string) *progress {
	p := &progress{things: things, begin: time.Now()}
	if f := output.Terminal(w); f != nil {
		p.w = f
	}
	return p
}

func (p *progress) show(done, total int) {
	if p.w == nil {
		return
	}
	if now := time.Now(); now.Sub(p.begin) > 500*time.Millisecond && now.Sub(p.last) > 100*time.Millisecond {
		p.last = now
		fmt.Fprintf(p.w, "\rreading %d of %d %s", done, total, p.things)
	}
}

func (p *progress) end() {
	if !p.last.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
