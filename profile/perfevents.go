package profile

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"footfall/formats/perfdata"
)

// perfEvents are the events of a perf.data file, and which of them are shown.
type perfEvents struct {
	shown []*perfdata.SampledEvent
	names map[*perfdata.SampledEvent]string
}

// preferred are the events that are shown, if there are several: those of time.
var preferred = []string{"cpu-clock", "task-clock", "cycles", "cpu-cycles", "ref-cycles", "instructions"}

// choose chooses the events to show: those of a kind or with a name, "" to prefer one.
func (p *perfEvents) choose(events []*perfdata.SampledEvent, kind string) error {
	var kinds []string
	byKind := make(map[string][]*perfdata.SampledEvent)
	for _, e := range events {
		k := e.Kind()
		if k == "dummy" {
			continue
		}
		if byKind[k] == nil {
			kinds = append(kinds, k)
		}
		byKind[k] = append(byKind[k], e)
	}
	p.names = make(map[*perfdata.SampledEvent]string)
	for k, all := range byKind {
		together := apart(all)
		for _, e := range all {
			p.names[e] = k
			if !slices.Contains(together, e) {
				p.names[e] = e.Name
			}
		}
	}
	if kind == "" {
		at := slices.IndexFunc(preferred, func(k string) bool { return byKind[k] != nil })
		switch {
		case at >= 0:
			kind = preferred[at]
		case len(kinds) > 0:
			kind = kinds[0]
		}
		p.shown = apart(byKind[kind])
	} else if p.shown = apart(named(events, kind)); p.shown == nil {
		p.shown = apart(byKind[kind])
	}
	if len(p.shown) > 0 && len(p.shown) < len(apart(byKind[p.shown[0].Kind()])) { // one of those that could be added up
		for _, e := range byKind[p.shown[0].Kind()] {
			p.names[e] = e.Name
		}
	}
	if len(p.shown) == 0 {
		var all []string
		for _, e := range events {
			if name := p.names[e]; name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		return fmt.Errorf("event %s was not sampled; those that were: %s", kind, strings.Join(all, ", "))
	}
	return nil
}

// named returns the events that perf was asked for by that name.
func named(events []*perfdata.SampledEvent, name string) []*perfdata.SampledEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e *perfdata.SampledEvent) bool { return e.Name != name })
}

// apart returns those of events of a kind that can be added up, as none counts what
// another one does: of several kinds of cores, or in programs and in the kernel. Those
// that count most come first.
func apart(events []*perfdata.SampledEvent) []*perfdata.SampledEvent {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b *perfdata.SampledEvent) int {
		return cmp.Compare(bits.OnesCount(b.Modes()), bits.OnesCount(a.Modes()))
	})
	var all []*perfdata.SampledEvent
	for _, e := range events {
		if !slices.ContainsFunc(all, e.Overlaps) {
			all = append(all, e)
		}
	}
	return all
}

// name is what --event calls the event: its kind, or its own name where another event of
// the kind counts the same.
func (p *perfEvents) name(e *perfdata.SampledEvent) string {
	if name := p.names[e]; name != "" {
		return name
	}
	return e.Kind()
}

// otherEvents lists the names in counts but that of what is shown.
func (p *perfEvents) otherEvents(counts map[string]int64) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(counts)), func(name string) bool { return name == p.name(p.shown[0]) })
}
