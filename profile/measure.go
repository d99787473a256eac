package profile

import (
	"fmt"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// What a profile measures is CPU time, "cpu" in nanoseconds, unless it is one of perf's
// that counts something else, such as cycles or page faults: then the value of that
// place is a number, and has the event's name.

// measure has the second value of samples be another one than CPU time.
func (b *builder) measure(name, unit string) {
	b.p.SampleType[cpuIndex] = &pprof.ValueType{Type: name, Unit: unit}
	b.p.DefaultSampleType = name
	b.p.PeriodType = &pprof.ValueType{Type: name, Unit: unit}
}

// measured is what the profile measures: "cpu", or the name of an event.
func (p *Profile) measured() string {
	if len(p.SampleType) <= cpuIndex {
		return "cpu" // of nothing
	}
	return p.SampleType[cpuIndex].Type
}

// counts tells that what is measured is no time.
func (p *Profile) counts() bool {
	return len(p.SampleType) > cpuIndex && p.SampleType[cpuIndex].Unit == "count"
}

// measures tells whether there is any of what the profile measures.
func (p *Profile) measures() bool {
	for _, s := range p.Sample {
		if s.Value[cpuIndex] != 0 {
			return true
		}
	}
	return false
}

// alike has profiles that only count calls measure what the others do.
func alike(ps []*Profile) error {
	var first *Profile
	for _, p := range ps {
		switch {
		case !p.measures():
		case first == nil:
			first = p
		case first.measured() != p.measured():
			return fmt.Errorf("%s and %s cannot be put together: show one at a time", first.measureName(), p.measureName())
		}
	}
	if first == nil {
		return nil
	}
	for _, p := range ps {
		p.SampleType[cpuIndex], p.PeriodType, p.DefaultSampleType = first.SampleType[cpuIndex], first.PeriodType, first.DefaultSampleType
	}
	return nil
}

// measureName is what the profile measures, for people.
func (p *Profile) measureName() string {
	if p.measured() == "cpu" {
		return "CPU time"
	}
	return p.measured()
}

// eventName is what it measures for formats that want one word.
func (p *Profile) eventName() string {
	if p.measured() == "cpu" {
		return "Ns"
	}
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, p.measured())
}

// number shows a count; all of a profile in one unit, that of the total.
func number(n, total int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e9, "G"}, {1e6, "M"}} {
		if total >= 10*unit.size {
			return fmt.Sprintf("%.3f%s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprint(n)
}

// amount shows what was measured, in seconds if it is time.
func (r *View) amount(n int64) string {
	if r.Profile.counts() {
		return number(n, max(r.Graph.Total, r.beforeTotal()))
	}
	return seconds(n)
}

// change is amount with its sign.
func (r *View) change(n int64) string {
	if n < 0 {
		return r.amount(n)
	}
	return "+" + r.amount(n)
}

func (r *View) beforeTotal() int64 {
	if r.Before == nil {
		return 0
	}
	return r.Before.Total
}
