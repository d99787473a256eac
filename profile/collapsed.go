package profile

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// printCollapsed writes a line for each chain, for flamegraph.pl and its like:
// the functions, the outermost first, and the time in microseconds, or the number
// of events.
//
//	main;work;helper 2100000
func printCollapsed(w io.Writer, r *View) error {
	stacks, err := r.stacks()
	if err != nil {
		return err
	}
	sums := make(map[string]int64)
	var name []string
	for _, s := range stacks {
		name = name[:0]
		for _, f := range s.functions {
			name = append(name, strings.ReplaceAll(f.Name, ";", ":"))
		}
		sums[strings.Join(name, ";")] += s.cpu
	}
	for _, chain := range slices.Sorted(maps.Keys(sums)) {
		n := sums[chain]
		if !r.Profile.counts() {
			n = (n + 500) / 1000
		}
		if _, err := fmt.Fprintf(w, "%s %d\n", chain, n); err != nil {
			return err
		}
	}
	return nil
}
