package profile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
)

// workOf is a profile in which work of each path has the milliseconds.
func workOf(t *testing.T, file string, milliseconds map[string]int64) *Profile {
	t.Helper()
	b := newBuilder()
	for path, ms := range milliseconds {
		im := &image{key: path, path: path, high: 0x1000}
		l := &pprof.Location{ID: uint64(len(b.p.Location) + 1), Address: 0x10, Mapping: b.mapping(im)}
		l.Line = []pprof.Line{{Function: b.function(frame{functionKey: functionKey{name: "work", file: file, image: path}})}}
		b.p.Location = append(b.p.Location, l)
		b.add([]*pprof.Location{l}, "", 0, ms*1e6)
	}
	p, err := b.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rows are the functions of a profile: name, image, milliseconds.
func rows(p *Profile) string {
	var all []string
	for _, n := range NewGraph(p).Nodes {
		all = append(all, fmt.Sprintf("%s %s %s %d", n.Func.Name, n.Func.Filename, n.Image, n.Self/1e6))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestMergeImages adds up functions of one name: those of one program, and of one source.
func TestMergeImages(t *testing.T) {
	for _, c := range []struct {
		file string
		a, b map[string]int64
		want string
	}{
		{"", map[string]int64{"/bin/one": 100}, map[string]int64{"/bin/two": 200}, "work  one 100, work  two 200"},
		{"", map[string]int64{"/bin/one": 100}, map[string]int64{"/bin/one": 200}, "work  one 300"},
		{"work.c", map[string]int64{"/bin/one": 100, "/bin/two": 1}, map[string]int64{"/bin/two": 200}, "work work.c one 100, work work.c two 201"},
	} {
		merged, err := Merge([]*Profile{workOf(t, c.file, c.a), workOf(t, c.file, c.b)})
		if err != nil {
			t.Fatal(err)
		}
		if got := rows(merged); got != c.want {
			t.Errorf("%v and %v: %s", c.a, c.b, got)
		}
		var buf bytes.Buffer
		if err := merged.Write(&buf); err != nil {
			t.Fatal(err)
		}
		again, err := FromPprof(buf.Bytes())
		if err != nil || rows(again) != c.want {
			t.Errorf("again: %s, %v", rows(again), err)
		}
	}
}

// TestSplitFunctions reads a profile of a program for which functions of one name are one.
func TestSplitFunctions(t *testing.T) {
	p := workOf(t, "", map[string]int64{"/bin/one": 100, "/bin/two": 200})
	p.Location[1].Line[0].Function = p.Location[0].Line[0].Function
	p.Function = p.Function[:1]
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := FromPprof(b.Bytes())
	if err != nil || rows(again) != "work  one 100, work  two 200" {
		t.Errorf("%s, %v", rows(again), err)
	}
}

// TestDiffImages compares functions of one name in several programs, one of which has got
// another name.
func TestDiffImages(t *testing.T) {
	r, err := NewDiff(workOf(t, "", map[string]int64{"/bin/one": 100, "/bin/two": 200, "/bin/old": 50}), workOf(t, "", map[string]int64{"/bin/two": 201, "/bin/one": 102, "/bin/new": 54}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.changes() {
		before, after := c.values(selfOf)
		got = append(got, fmt.Sprintf("%s %d", c.node().Image, (after-before)/1e6))
	}
	if want := "new 4, one 2, two 1"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}
