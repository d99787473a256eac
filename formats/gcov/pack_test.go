package gcov

import (
	"cmp"
	"slices"
	"testing"

	"footfall/formats/gcov/fixtures"
)

// A packed function must have what decoder finds in its records, and be refused for what decoder
// finds wrong with them.
func comparePacked(t *testing.T, notes []byte) {
	head, r := readNotesHead(notes)
	if r.err != nil {
		return
	}
	all := newSources(bySourceName)
	names := all.cache()
	names.setDir(head.Cwd)
	s := skimmer{r: &r, version: head.Version, names: &names}
	p := packer{names: &names}
	dec := decoder{version: head.Version}
	for s.next() {
		raw := r
		raw.b, raw.pos, raw.base, raw.err = s.raw, 0, s.base, nil
		var fn FunctionGraph
		want := dec.function(&fn, raw)
		for i := range fn.Locations {
			if slices.Max(append(fn.Locations[i].Lines, 0)) >= LineLimit && want == nil {
				want = &FormatError{Offset: s.base}
			}
		}
		b, err := p.pack(&s)
		switch {
		case (err == nil) != (want == nil) || err != nil && (err.Offset != want.Offset || want.Msg != "" && err.Msg != want.Msg):
			t.Fatalf("%q is packed with error %v, but decoded with %v", fn.Name, err, want)
		case err != nil:
			continue
		}
		var u unpacked
		var g, graph Flow
		u.unpack(b, &g)
		graph.Build(&fn, head.Version)
		if u.fn.Name != fn.Name || u.fn.StartLine != fn.StartLine || u.fn.EndLine != fn.EndLine ||
			u.fn.StartColumn != fn.StartColumn || u.fn.EndColumn != fn.EndColumn {
			t.Fatalf("%q is another function when it was packed: %+v, expected %+v", fn.Name, u.fn, fn)
		}
		if len(g.Blocks) != fn.Blocks || !slices.Equal(g.Arcs, graph.Arcs) || !slices.Equal(g.lists, graph.lists) {
			t.Fatalf("%q has another graph when it was packed: %v, expected %v", fn.Name, g.Arcs, graph.Arcs)
		}
		if !slices.Equal(u.fn.Conditions, fn.Conditions) || p.counters != fn.Counters() || len(fn.Conditions) != p.decisionCount {
			t.Fatalf("%q has conditions %v and %d counters when it was packed, expected %v and %d", fn.Name, u.fn.Conditions, p.counters, fn.Conditions, fn.Counters())
		}
		if len(u.places) != len(fn.Locations) {
			t.Fatalf("%q has %d locations when it was packed, expected %d", fn.Name, len(u.places), len(fn.Locations))
		}
		// The next function of the same shape is solved in the same graph.
		one, two := make([]int64, p.counters), make([]int64, p.counters)
		for i := range one {
			one[i], two[i] = 1, 2
		}
		graph.Solve(one)
		g.Solve(two)
		if len(b) > 0 && !u.unpack(b, &g) {
			t.Fatalf("%q is not of the same shape as itself", fn.Name)
		}
		g.Solve(one)
		if !slices.Equal(g.Arcs, graph.Arcs) || !slices.Equal(g.Blocks, graph.Blocks) {
			t.Fatalf("%q has other counts when it is solved again: %v, expected %v", fn.Name, g.Arcs, graph.Arcs)
		}
		for i, place := range u.places {
			l := &fn.Locations[i]
			file, _ := names.id([]byte(cmp.Or(l.Source, fn.Source)))
			if place.block != l.Block || place.file != file || !slices.Equal(u.lines[place.line:place.last], l.Lines) {
				t.Fatalf("%q has location %+v with lines %v when it was packed, expected %+v", fn.Name, place, u.lines[place.line:place.last], *l)
			}
		}
	}
}

func TestPack(t *testing.T) {
	fixtures.EachInput(t, ".gcno", func(name string, b []byte) { comparePacked(t, b) })
}

func FuzzPack(f *testing.F) {
	n := 0
	fixtures.EachInput(f, ".gcno", func(name string, b []byte) {
		if n++; n%7 == 0 && len(b) < 4000 {
			f.Add(b)
		}
	})
	f.Fuzz(comparePacked)
}
