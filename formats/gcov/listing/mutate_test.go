package listing

import (
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

// TestMutated damages real files in 10,000 ways. Each must give a report or an
// error, from Collect and from the listings of GCC and Clang, soon.
func TestMutated(t *testing.T) {
	n := 10000
	if testing.Short() {
		n = 500
	}
	type pair struct{ notes, data []byte }
	var pairs []pair
	for _, archive := range []string{"gcc", "clang"} {
		for _, fx := range fixtures.All(t, archive) {
			for name, b := range fx.Inputs {
				if stem, ok := strings.CutSuffix(name, ".gcno"); ok && len(b) < 1<<16 {
					pairs = append(pairs, pair{b, fx.Inputs[stem+".gcda"]})
				}
			}
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	rng := rand.New(rand.NewPCG(1, 2))
	obj := gcov.Object{Notes: "x.gcno", Data: []string{"x.gcda"}}
	for i := range n {
		p := pairs[rng.IntN(len(pairs))]
		fixtures.Write(t, "x.gcno", mutate(rng, p.notes))
		fixtures.Write(t, "x.gcda", mutate(rng, p.data))
		slow := time.AfterFunc(10*time.Minute, func() { panic("hangs on input " + strconv.Itoa(i)) })
		gcov.Collect([]gcov.Object{obj}, gcov.CollectOptions{Source: func(_, name string) (string, bool) { return filepath.Base(name), true }})
		Run(&Invocation{Prog: "gcov", Args: []string{"-a", "-b", "-t", "x.gcda"}, Stdout: io.Discard, Stderr: io.Discard})
		slow.Stop()
	}
}

// mutate returns a damaged copy.
func mutate(rng *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	if len(b) == 0 {
		return b
	}
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(b))
		switch rng.IntN(5) {
		case 0:
			b = b[:at+1]
		case 1:
			b[at] ^= 1 << rng.IntN(8)
		case 2:
			b[at] = byte(rng.IntN(256))
		case 3: // a word of the extreme kind
			word := [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0x7f}, {0, 0, 0, 0x80}, {0, 0, 1, 0}}[rng.IntN(5)]
			copy(b[at&^3:], word)
		case 4: // a piece twice
			end := min(len(b), at+1+rng.IntN(64))
			b = append(b[:end:end], b[at:]...)
		}
	}
	return b
}
