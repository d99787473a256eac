package record

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"footfall/trace"
)

// printCounts is what --count shows; counts are by the numbers of functions.
func printCounts(w io.Writer, h *trace.Header, counts []uint64) error {
	functions := h.Functions
	total := uint64(0)
	var called []int
	for i, n := range counts {
		total += n
		if n > 0 {
			called = append(called, i)
		}
	}
	slices.SortFunc(called, func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(functions[a].Name, functions[b].Name))
	})
	names := h.Names()
	fmt.Fprintf(w, "%15s  %s\n", "calls", "function")
	for _, i := range called {
		fmt.Fprintf(w, "%15d  %s\n", counts[i], names[i])
	}
	_, err := fmt.Fprintf(w, "%15d  %s\n", total, "total")
	return err
}
