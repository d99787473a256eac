package report

import (
	"fmt"
	"strconv"
	"strings"
)

// lineRanges are lines of a source. Those that have nothing but lines without
// code between them are one range.
type lineRanges struct {
	count    int
	ranges   []string
	from, to int32 // from is 0 outside of a range
}

// add says of a line with code whether it is one of them; lines ascend.
func (r *lineRanges) add(line int32, is bool) {
	if !is {
		r.end()
		return
	}
	r.count++
	if r.to = line; r.from == 0 {
		r.from = line
	}
}

func (r *lineRanges) end() {
	switch {
	case r.from == 0:
	case r.from == r.to:
		r.ranges = append(r.ranges, strconv.Itoa(int(r.from)))
	default:
		r.ranges = append(r.ranges, fmt.Sprintf("%d-%d", r.from, r.to))
	}
	r.from = 0
}

// String returns them as "12-15,20".
func (r *lineRanges) String() string {
	r.end()
	return strings.Join(r.ranges, ",")
}
