package collect

import (
	"fmt"
	"strings"
	"testing"
)

func TestGrouped(t *testing.T) {
	var b strings.Builder
	g := Group(&b)
	fmt.Fprint(g, `footfall: first
footfall: postgres (pid 1): counts of 2 objects start from zero
footfall: postgres (pid 2): counts of 2 objects start from zero
footfall: postgres (pid 3): counts of 3 objects start from zero
footfall: left out: process 7 (sh): no counters
footfall: left out: process 8 (sh): no counters
footfall: postgres (pid 4): counts of 2 objects start from zero
footfall: postgres (pid 5): counts of 2 objects start from zero
footfall: pro`)
	fmt.Fprint(g, "cess 7 (sh): no counters\nfootfall: last\n")
	if b.Len() > 0 {
		t.Errorf("written before it is flushed: %s", b.String())
	}
	g.Flush()
	const want = `footfall: first
footfall: postgres (4 processes: 1, 2 and 2 more): counts of 2 objects start from zero
footfall: postgres (pid 3): counts of 3 objects start from zero
footfall: left out: sh (2 processes: 7, 8): no counters
footfall: process 7 (sh): no counters
footfall: last
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if g.Flush(); b.String() != want {
		t.Error("written twice")
	}
}
