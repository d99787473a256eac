package gcov

import (
	"cmp"
	"slices"
)

// Value profiles, which -fprofile-generate adds, have had four forms. Since GCC
// 11 they are lists (combine.go). Before, for each site:
//
//	until 9   single, indirect     value, its count, count of all
//	          indirect_call_topn   evictions, 4 × (callee, count)
//	10        topn, indirect       count of all, 4 × (value, count)

const oldSite = 9 // numbers of a site of the last two forms

// knowsOldValues tells whether value profiles of that version can be merged and
// scaled.
func (v Version) knowsOldValues() bool { return v.Number() >= 70 }

// scaleValues applies f to the counts of a value profile, not to the values.
func (c *Counts) scaleValues(ctr *Counters, f func(int64) int64) {
	v, n := ctr.Values, c.Version.Number()
	switch op := c.Version.operation(ctr.Kind); {
	case op == opValues:
		sites, ok := ctr.sites()
		if !ok {
			return
		}
		for i := range sites {
			sites[i].total = f(sites[i].total)
			for k := range sites[i].seen {
				sites[i].seen[k].count = f(sites[i].seen[k].count)
			}
		}
		ctr.setSites(sites)
	case op != opOther || !c.Version.knowsOldValues():
	case n >= 100 || ctr.Kind == KindConditions:
		for ; len(v) >= oldSite; v = v[oldSite:] {
			if n >= 100 {
				v[0] = f(v[0])
			}
			for k := 2; k < oldSite; k += 2 {
				v[k] = f(v[k])
			}
		}
	default:
		for ; len(v) >= 3; v = v[3:] {
			v[1], v[2] = f(v[1]), f(v[2])
		}
	}
}

// mergeOldValues adds a value profile of GCC 7 to 10. Older ones are left as
// they are.
func (c *Counts) mergeOldValues(to, from *Counters) {
	a, b, n := to.Values, from.Values, c.Version.Number()
	if !c.Version.knowsOldValues() || len(a) != len(b) {
		return
	}
	switch {
	case n >= 100:
		for ; len(a) >= oldSite; a, b = a[oldSite:], b[oldSite:] {
			mergeFour(a[:oldSite], b[:oldSite])
		}
	case to.Kind == KindConditions:
		for ; len(a) >= oldSite; a, b = a[oldSite:], b[oldSite:] {
			mergeCallees(a[:oldSite], b[:oldSite])
		}
	default:
		for ; len(a) >= 3; a, b = a[3:], b[3:] {
			mergeSingle(a[:3], b[:3])
		}
	}
}

// mergeSingle keeps the value that leads.
func mergeSingle(a, b []int64) {
	switch {
	case a[0] == b[0]:
		a[1] += b[1]
	case b[1] > a[1]:
		a[0], a[1] = b[0], b[1]-a[1]
	default:
		a[1] -= b[1]
	}
	a[2] += b[2]
}

// mergeFour adds to a site of GCC 10; its total becomes negative when values
// are lost.
func mergeFour(a, b []int64) {
	if b[0] < 0 {
		a[0] = -a[0]
	}
	a[0] += b[0]
	for i := 1; i < oldSite; i += 2 {
		value, count := b[i], b[i+1]
		if count == 0 {
			continue
		}
		found, slot := false, 1
		for k := 1; k < oldSite && !found; k += 2 {
			if a[k] == value {
				a[k+1] += count
				found = true
			} else if a[k+1] < a[slot+1] {
				slot = k
			}
		}
		switch {
		case found:
			continue
		case a[slot+1] == 0:
			a[slot], a[slot+1] = value, count
			continue
		case a[0] >= 0:
			a[0] = -a[0]
		}
		if count > a[slot+1] {
			a[slot], a[slot+1] = value, count
		} else {
			a[slot+1] -= count
		}
	}
}

// mergeCallees keeps the four most frequent of both.
func mergeCallees(a, b []int64) {
	var all []valueCount
	for i := 1; i < oldSite; i += 2 {
		all = append(all, valueCount{a[i], a[i+1]})
	}
next:
	for i := 1; i < oldSite; i += 2 {
		for k := range all {
			if all[k].value == b[i] {
				all[k].count += b[i+1]
				continue next
			}
		}
		all = append(all, valueCount{b[i], b[i+1]})
	}
	sortCallees(all)
	for i, p := range all[:4] {
		a[2*i+1], a[2*i+2] = p.value, p.count
	}
}

// sortCallees sorts the most frequent to the front and keeps the order of
// equals.
func sortCallees(all []valueCount) {
	for i := 1; i < len(all); i++ {
		for k := i; k > 0 && all[k-1].count < all[k].count; k-- {
			all[k-1], all[k] = all[k], all[k-1]
		}
	}
}

// OrderValues does what programs of GCC 9 and 10 do to value profiles before
// they write them: 9 sorts callees, 10 forgets values that were not the only
// one.
func (c *Counts) OrderValues() {
	n := c.Version.Number()
	for i := range c.Functions {
		for k := range c.Functions[i].Counters {
			ctr := &c.Functions[i].Counters[k]
			if c.Version.operation(ctr.Kind) != opOther {
				continue
			}
			for v := ctr.Values; len(v) >= oldSite; v = v[oldSite:] {
				switch {
				case n >= 100:
					for p := 1; p < oldSite; p += 2 {
						if v[p+1] < v[0] {
							v[p], v[p+1] = 0, 0
						}
					}
				case c.Version.knowsOldValues() && ctr.Kind == KindConditions:
					all := []valueCount{{v[1], v[2]}, {v[3], v[4]}, {v[5], v[6]}, {v[7], v[8]}}
					sortCallees(all)
					for p, x := range all {
						v[2*p+1], v[2*p+2] = x.value, x.count
					}
				}
			}
		}
	}
}

// SortValues brings the values of each site of a list into a fixed order, the most frequent
// first.
func (c *Counters) SortValues() {
	sites, ok := c.sites()
	if !ok {
		return
	}
	for _, s := range sites {
		slices.SortStableFunc(s.seen, func(a, b valueCount) int {
			return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(b.value, a.value))
		})
	}
	c.setSites(sites)
}
