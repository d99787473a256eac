package tool

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"footfall/formats/gcov"
	"footfall/formats/gcov/getopt"
)

// An overlapper compares two directories: how much of one is in the other.
type overlapper struct {
	*tool
	functions, objects, hotOnly, fullNames bool
	threshold                              float64

	// sum is that of all counters of each directory. Since GCC 9 gcov-tool
	// leaves it 0: every file with a count is hot, and nothing overlaps.
	sum                             [2]float64
	files, unique, hot, cold, zero  [2]int
	bothHot, bothCold, bothZero     int
	objectSum, objectCum1, objectC2 float64
}

func (t *tool) overlap(args []string) int {
	o := &overlapper{tool: t, threshold: 0.005}
	g := getopt.Parser{Prog: t.command("overlap"), Short: "vfFoht:", Long: []getopt.Option{
		getopt.Flag("verbose", 'v'), getopt.Flag("function", 'f'), getopt.Flag("fullname", 'F'), getopt.Flag("object", 'o'), getopt.Flag("hotonly", 'h'), getopt.Value("hot_threshold", 't'),
	}, Stderr: t.Stderr, Args: args}
	if t.Version == 0 {
		g.Long = append(g.Long, getopt.Flag("exact", 'e'))
	}
	for opt, arg := g.Next(); opt != 0; opt, arg = g.Next() {
		switch opt {
		case 'v':
			t.verbose = true
		case 'e':
			t.exact = true
		case 'f':
			o.functions = true
		case 'F':
			o.fullNames = true
		case 'o':
			o.objects = true
		case 'h':
			o.hotOnly = true
		case 't':
			o.threshold, _ = strconv.ParseFloat(arg, 64)
		default:
			return t.misused("overlap")
		}
	}
	if len(g.Operands) != 2 {
		return t.misused("overlap")
	}
	var files [2][]dataFile
	for i, name := range g.Operands {
		d := listData(name, false)
		if d.err != nil {
			fmt.Fprintln(t.Stderr, d.err)
			return 1
		}
		if files[i] = t.read(d); len(files[i]) == 0 {
			if t.Version == 0 {
				fmt.Fprintf(t.Stderr, "footfall: no data files (.gcda) that can be used in %s\n", name)
			}
			return 1
		}
	}
	if t.exact {
		for i := range files {
			for _, f := range files[i] {
				o.sum[i] += arcSum(f.counts)
			}
		}
	}
	result := o.compare(files[0], files[1])
	if !(result > 0) {
		return 1
	}
	fmt.Fprintf(t.Stdout, "\nProgram level overlap result is %s%%\n\n", cFloat(3, 2, result*100))
	return 0
}

func arcSum(c *gcov.Counts) float64 {
	var sum float64
	for i := range c.Functions {
		if k := first(&c.Functions[i]); k != nil {
			for n := range k.Len() {
				sum += float64(k.At(n))
			}
		}
	}
	return sum
}

// first is the first kind of counters, which is that of the arcs; gcov-tool does
// not look.
func first(f *gcov.FunctionCounts) *gcov.Counters {
	if len(f.Counters) == 0 {
		return nil
	}
	return &f.Counters[0]
}

// An overlapPair is the data of one file in each directory, nil where it is
// missing.
type overlapPair struct {
	name string
	c    [2]*gcov.Counts
	heat [2]byte // 'z'ero, 'c'old, 'h'ot; 0: missing
}

// compare prints the comparison and returns the part of the counts that both
// have.
func (o *overlapper) compare(a, b []dataFile) float64 {
	pairs := make([]overlapPair, 0, len(a)+len(b))
	index := make(map[string]int)
	for i, f := range a {
		index[f.name] = i
		pairs = append(pairs, overlapPair{name: f.name, c: [2]*gcov.Counts{f.counts, nil}})
	}
	for _, f := range b {
		i, ok := index[f.name]
		if ok && len(pairs[i].c[0].Functions) == len(f.counts.Functions) {
			pairs[i].c[1] = f.counts
			continue
		}
		if ok {
			fmt.Fprintf(o.Stderr, "mismatched profiles in %s (%d functions vs %d functions)\n", f.name, len(f.counts.Functions), len(pairs[i].c[0].Functions))
		}
		pairs = append(pairs, overlapPair{name: f.name, c: [2]*gcov.Counts{nil, f.counts}})
	}
	for i := range pairs {
		o.classify(&pairs[i])
	}
	var total float64
	for i := range pairs {
		total += o.pair(&pairs[i])
	}
	o.statistics()
	return total
}

// classify counts a pair among the hot, cold or zero files.
func (o *overlapper) classify(p *overlapPair) {
	for i, c := range p.c {
		if c == nil {
			o.unique[1-i]++
			continue
		}
		o.files[i]++
		switch {
		case allAtMost(c, 0):
			p.heat[i] = 'z'
			o.zero[i]++
		case allAtMost(c, int64(o.sum[i]*o.threshold)):
			p.heat[i] = 'c'
			o.cold[i]++
		default:
			p.heat[i] = 'h'
			o.hot[i]++
		}
	}
	switch {
	case p.hot():
		o.bothHot++
	case p.heat == [2]byte{'c', 'c'}:
		o.bothCold++
	case p.heat == [2]byte{'z', 'z'}:
		o.bothZero++
	}
}

func (p *overlapPair) hot() bool { return p.heat[0] == 'h' || p.heat[1] == 'h' }

func allAtMost(c *gcov.Counts, limit int64) bool {
	for i := range c.Functions {
		if k := first(&c.Functions[i]); k != nil {
			for _, x := range k.Values {
				if x > limit {
					return false
				}
			}
		}
	}
	return true
}

// pair prints a pair and returns what overlaps.
func (o *overlapper) pair(p *overlapPair) float64 {
	if p.heat == [2]byte{'z', 'z'} {
		return 0
	}
	name := p.name
	if !o.fullNames {
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	if o.functions {
		fmt.Fprintf(o.Stdout, "\n   processing %36s:\n", name)
	}
	var val float64
	var cum [2]float64
	switch {
	case p.c[0] == nil:
		cum[1] = o.cumulate(p.c[1], o.sum[1])
	case p.c[1] == nil:
		cum[0] = o.cumulate(p.c[0], o.sum[0])
	default:
		val, cum = o.both(p.c[0], p.c[1])
	}
	if o.objects && (!o.hotOnly || p.hot()) {
		fmt.Fprintf(o.Stdout, "   obj=%36s  overlap = %s%% (%s%% %s%%)\n", name, cFloat(6, 2, val*100), cFloat(5, 2, cum[0]*100), cFloat(5, 2, cum[1]*100))
		o.objectSum += val
		o.objectCum1 += cum[0]
		o.objectC2 += cum[1]
	}
	return val
}

func (o *overlapper) cumulate(c *gcov.Counts, sum float64) (cum float64) {
	for i := range c.Functions {
		if k := first(&c.Functions[i]); k != nil {
			for n := range k.Len() {
				cum += float64(k.At(n)) / sum
			}
		}
	}
	return cum
}

// both compares the functions of two objects.
func (o *overlapper) both(a, b *gcov.Counts) (val float64, cum [2]float64) {
	for i := range a.Functions {
		f, g := &a.Functions[i], &b.Functions[i]
		k, l := first(f), first(g)
		if k == nil || l == nil || f.Placeholder || g.Placeholder {
			continue
		}
		var v, c1, c2 float64
		nonzero, hot := false, false
		for n := range min(k.Len(), l.Len()) {
			x, y := k.At(n), l.At(n)
			if x|y == 0 {
				continue
			}
			v += overlapOf(uint64(x), uint64(y), o.sum)
			p, q := float64(x)/o.sum[0], float64(y)/o.sum[1]
			c1 += p
			c2 += q
			nonzero = true
			hot = hot || p >= o.threshold || q >= o.threshold
		}
		val += v
		cum[0] += c1
		cum[1] += c2
		if o.functions && nonzero && (!o.hotOnly || hot) {
			fmt.Fprintf(o.Stdout, "   \tfunc_id=%10d \toverlap =%s%% (%s%% %s%%)\n", int32(f.Ident), cFloat(6, 5, v*100), cFloat(5, 5, c1*100), cFloat(5, 5, c2*100))
		}
	}
	return val, cum
}

// overlapOf is the part of all counts that both counters have.
func overlapOf(x, y uint64, sum [2]float64) float64 {
	var p, q float64
	if sum[0] != 0 {
		p = float64(x) / sum[0]
	}
	if sum[1] != 0 {
		q = float64(y) / sum[1]
	}
	if q < p {
		return q
	}
	return p
}

func (o *overlapper) statistics() {
	w := o.Stdout
	if o.objects {
		fmt.Fprintf(w, "   SUM:%36s  overlap = %s%% (%s%% %s%%)\n", "", cFloat(6, 2, o.objectSum*100), cFloat(5, 2, o.objectCum1*100), cFloat(5, 2, o.objectC2*100))
	}
	fmt.Fprint(w, "  Statistics:\n                    profile1_#     profile2_#       overlap_#\n")
	fmt.Fprintf(w, "    gcda files:  %12d\t%12d\t%12d\n", o.files[0], o.files[1], o.files[0]-o.unique[0])
	fmt.Fprintf(w, "  unique files:  %12d\t%12d\n", o.unique[0], o.unique[1])
	fmt.Fprintf(w, "     hot files:  %12d\t%12d\t%12d\n", o.hot[0], o.hot[1], o.bothHot)
	fmt.Fprintf(w, "    cold files:  %12d\t%12d\t%12d\n", o.cold[0], o.cold[1], o.bothCold)
	fmt.Fprintf(w, "    zero files:  %12d\t%12d\t%12d\n", o.zero[0], o.zero[1], o.bothZero)
}

// cFloat formats as the C library's %WIDTH.PRECf does; what is no number is
// negative, as x86 makes it.
func cFloat(width, prec int, x float64) string {
	s := strconv.FormatFloat(x, 'f', prec, 64)
	switch {
	case math.IsNaN(x):
		s = "-nan"
	case math.IsInf(x, 1):
		s = "inf"
	case math.IsInf(x, -1):
		s = "-inf"
	}
	return strings.Repeat(" ", max(0, width-len(s))) + s
}
