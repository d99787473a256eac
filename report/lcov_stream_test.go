package report

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"footfall/coverage"
)

// A writer takes so many bytes, and then fails.
type writer struct {
	bytes.Buffer
	most int
}

var errFull = errors.New("full")

func (w *writer) Write(b []byte) (int, error) {
	if w.Len()+len(b) > w.most {
		return 0, errFull
	}
	return w.Buffer.Write(b)
}

// TestTracefileInPieces writes one that is larger than what is written at once, in the same pieces or
// as a whole, and where there is no room.
func TestTracefileInPieces(t *testing.T) {
	var files []*coverage.File
	for i, n := range []int32{3, 20_000, 5, 0} {
		f := &coverage.File{Name: fmt.Sprintf("/src/%d.cc", i)}
		for line := int32(1); line <= n; line++ {
			name := fmt.Sprintf("_Z%d", line)
			f.Functions = append(f.Functions, &coverage.Function{
				Name: name, StartLine: line, EndLine: line, Count: int64(line % 3),
				Instances: []coverage.Instance{{Name: name, Count: int64(line % 3)}, {Name: name + "_", Count: 1}, {Name: "same"}},
			})
			f.Lines = append(f.Lines, coverage.Line{Number: line, Count: int64(line % 3), Branches: []coverage.Branch{{Evaluated: true, Count: 1}, {Evaluated: true}}})
		}
		files = append(files, f)
	}
	for dialect, print := range map[string]func(*writer, *Report) error{
		"lcov":  func(w *writer, r *Report) error { return printLcov(w, r) },
		"lcov2": func(w *writer, r *Report) error { return printLcov2(w, r) },
		"lcov1": func(w *writer, r *Report) error { return printLcov1(w, r) },
	} {
		whole, pieces := &writer{most: 1 << 30}, &writer{most: 1 << 30}
		set := coverage.NewSet(files...)
		if err := errors.Join(print(whole, &Report{Set: set, Again: new(Again)}), print(pieces, &Report{Set: set})); err != nil {
			t.Fatal(err)
		}
		if whole.Len() < 1<<20 || !bytes.Equal(whole.Bytes(), pieces.Bytes()) {
			t.Errorf("%s: %d bytes as a whole, %d in pieces", dialect, whole.Len(), pieces.Len())
		}
		for _, most := range []int{0, 1 << 16, whole.Len() - 1} {
			if err := print(&writer{most: most}, &Report{Set: set}); !errors.Is(err, errFull) {
				t.Errorf("%s into %d bytes: %v", dialect, most, err)
			}
		}
	}
}
