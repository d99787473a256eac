//go:build linux

package record

import (
	"path"
	"slices"
	"strconv"

	"footfall/trace"
)

// settings are how calls are recorded, in all programs and by every way.
type settings struct {
	mode       trace.Mode
	filter     trace.Filter
	arguments  bool // functions may have some
	newest     bool // the newest events are kept, and read at the end
	follow     bool // children made by fork are recorded, too
	buffer     int  // MB for the events of each thread
	chainDepth int  // of Chains
	threads    threadPatterns
}

// filters tells whether some calls are left out, by those around them or by their duration.
// Of such calls all have to be seen in one place.
func (s *settings) filters() bool { return s.filter != trace.Filter{} }

// threadPatterns choose threads by ids and by globs of names; none choose all.
type threadPatterns []string

func (t threadPatterns) take(id int, name string) bool {
	return len(t) == 0 || t.takeName(name) || slices.Contains(t, strconv.Itoa(id))
}

func (t threadPatterns) takeName(name string) bool {
	return slices.ContainsFunc(t, func(wanted string) bool {
		fits, _ := path.Match(wanted, name)
		return fits
	})
}

// ids are those among the patterns.
func (t threadPatterns) ids() (ids []uint32) {
	for _, wanted := range t {
		if id, err := strconv.ParseUint(wanted, 10, 31); err == nil {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}
