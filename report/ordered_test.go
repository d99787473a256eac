package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// orderedText is text i: some are none, some longer than all that may wait.
func orderedText(i int) string {
	size := 0
	switch {
	case i%97 == 3:
		size = mostWaiting + i
	case i%5 != 0:
		size = i * 7 % 3000
	}
	return strings.Repeat(fmt.Sprintf("%d,", i), size/3)
}

// writeTexts writes n texts, long ones in pieces as they come.
func writeTexts(to io.Writer, n int) error {
	return writeOrdered(to, n, func(o *ordered) func(int, []byte) []byte {
		return func(i int, b []byte) []byte {
			if rand.IntN(4) == 0 {
				runtime.Gosched()
			}
			for text := orderedText(i); text != ""; {
				piece := min(len(text), 10000)
				b, text = o.hand(i, append(b, text[:piece]...)), text[piece:]
			}
			return b
		}
	})
}

func TestOrdered(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for _, n := range []int{0, 1, 2, 300} {
		var got bytes.Buffer
		if err := writeTexts(&got, n); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for i := range n {
			want.WriteString(orderedText(i))
		}
		if got.String() != want.String() {
			t.Errorf("%d texts: %d bytes, want %d in their order", n, got.Len(), want.Len())
		}
	}
}

func TestOrderedFails(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for _, left := range []int{0, 1 << 10, 1 << 20, 1 << 23} {
		if err := writeTexts(&writer{most: left}, 300); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: error %v, want %v", left, err, errFull)
		}
	}
}
