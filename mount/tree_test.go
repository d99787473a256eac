//go:build linux

package mount

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"footfall/collect/find"
	"footfall/formats/gcov"
	"footfall/input"
	"footfall/live"
	"footfall/process/needs"
)

func TestComponents(t *testing.T) {
	for name, want := range map[string][]string{
		"/a/b.gcda":                 {"a", "b.gcda"},
		"b.gcda":                    {"b.gcda"},
		"../../b.gcda":              {"b.gcda"},
		"/a/../../../etc/b.gcda":    {"etc", "b.gcda"},
		"a/./b//c.gcda":             {"a", "b", "c.gcda"},
		"/..":                       nil,
		"/\n\x1b[31m/ b.gcda":       {"\n\x1b[31m", " b.gcda"},
		"/a\xff\xfe/caf\u00e9.gcda": {"a\xff\xfe", "caf\u00e9.gcda"},
	} {
		got := components(name)
		if !slices.Equal(got, want) {
			t.Errorf("components(%q) = %q, want %q", name, got, want)
		}
	}
	long, other := strings.Repeat("x", 300)+"1.gcda", strings.Repeat("x", 300)+"2.gcda"
	a, b := components(long), components(other)
	if len(a[0]) > maxName || !strings.HasSuffix(a[0], "1.gcda") || a[0] == b[0] {
		t.Errorf("components of long names: %q and %q", a, b)
	}
}

// units makes units that are alike but for what is told.
func units(names ...string) []live.Unit {
	var all []live.Unit
	for i, name := range names {
		name, image, _ := strings.Cut(name, "@")
		c := &gcov.Counts{Version: version12(), Stamp: uint32(len(image))}
		c.Functions = []gcov.FunctionCounts{{Ident: 1, Counters: []gcov.Counters{{Kind: gcov.KindArcs, Values: []int64{int64(i + 1)}}}}}
		c.FinishRun(int64(i + 1))
		all = append(all, live.Unit{Name: name, Image: image, Counts: c})
	}
	return all
}

func version12() gcov.Version { return gcov.Version(0x42323252) } // B22R

// newTree makes a process without a source.
func newTree(t *testing.T) *target {
	m := &Mount{noticed: make(map[string]bool), opt: Options{Notice: func(text string) { t.Log(text) }}}
	var err error
	if m.sources, err = newSources(nil, nil); err != nil {
		t.Fatal(err)
	}
	return newTarget(m, 1, "1-x", "", nil)
}

// files lists those of a process.
func files(p *target) map[string]int64 {
	p.placeAll()
	return paths(p.root, "")
}

// paths lists the files of counters, with the sum of their first counters.
func paths(n *node, at string) map[string]int64 {
	all := make(map[string]int64)
	if n.units != nil {
		c, err := gcov.ReadCounts(n.counts().Encode())
		if err != nil {
			panic(err)
		}
		all[at] = c.Functions[0].Counters[0].At(0)
	}
	for name, child := range n.children {
		for path, x := range paths(child, at+"/"+name) {
			all[path] = x
		}
	}
	return all
}

// TestPlace puts objects with difficult names into a tree. Those of one name
// and stamp (here: the length of the image's name) are one file.
func TestPlace(t *testing.T) {
	for _, test := range []struct {
		name  string
		units []string
		want  map[string]int64
	}{
		{"plain", []string{"/a/x.gcda@prog", "/a/y.gcda@prog"}, map[string]int64{"/a/x.gcda": 1, "/a/y.gcda": 2}},
		{"outside", []string{"../../x.gcda@p", "/y/../../../z.gcda@p"}, map[string]int64{"/x.gcda": 1, "/z.gcda": 2}},
		{"sum", []string{"/a/x.gcda@prog", "/a/x.gcda@lib1"}, map[string]int64{"/a/x.gcda": 3}},
		{"loaded twice", []string{"/a/x.gcda@prog", "/a/x.gcda@prog"}, map[string]int64{"/a/x.gcda": 3}},
		{"other build", []string{"/a/x.gcda@prog", "/a/x.gcda@library"}, map[string]int64{"/a/x.gcda": 1, "/2/a/x.gcda": 2}},
		{"file in the way", []string{"/a.gcda@p", "/a.gcda/b.gcda@p"}, map[string]int64{"/a.gcda": 1, "/2/a.gcda/b.gcda": 2}},
		{"directory in the way", []string{"/a.gcda/b.gcda@p", "/a.gcda@p"}, map[string]int64{"/a.gcda/b.gcda": 1, "/2/a.gcda": 2}},
		{"reserved", []string{"all.gcda@p", "/reset/x.gcda@p", "all.info/x.gcda@p"}, map[string]int64{"/2/all.gcda": 1, "/2/reset/x.gcda": 2, "/2/all.info/x.gcda": 3}},
		{"copies", []string{"/2/a.gcda@p", "/a.gcda@pp", "/a.gcda@ppp"}, map[string]int64{"/2/a.gcda": 1, "/a.gcda": 2, "/3/a.gcda": 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newTree(t)
			p.take(units(test.units...))

			if diff := cmp.Diff(test.want, files(p)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A process whose counters are now what is in it.
type now []live.Unit

func (n now) Snapshot() ([]live.Unit, error) { return n, nil }

// TestLateSnapshot has somebody read a process after another reader has not waited for
// its memory: what that one would have got is not true any more.
func TestLateSnapshot(t *testing.T) {
	old, new := units("/a/x.gcda@prog"), units("/a/x.gcda@prog")
	new[0].Counts.Functions[0].Counters[0].Values[0] = 7
	p := newTree(t)
	p.source = now(new)
	p.take(old)
	count := func() (int64, bool) {
		readings, events := p.readings(&find.Objects{})
		return readings[0].Counts.Functions[0].Counters[0].At(0), slices.Contains(events, tooLate)
	}
	p.reply = make(chan reply, 1)
	if n, told := count(); n != 1 || !told {
		t.Errorf("while a snapshot is being taken: %d, told %v, want 1, true", n, told)
	}
	if p.reset(nil) {
		t.Error("counters that cannot be read were reset")
	}
	p.reply <- reply{units: old}
	if n, told := count(); n != 7 || told {
		t.Errorf("after it: %d, told %v, want 7, false", n, told)
	}
}

// TestRebuiltLibrary loads a library, unloads it, and loads one that was built
// anew, of the same name.
func TestRebuiltLibrary(t *testing.T) {
	p := newTree(t)
	p.take(units("/a/x.gcda@prog", "/a/lib.gcda@lib"))
	p.take(units("/a/x.gcda@prog"))
	if diff := cmp.Diff(map[string]int64{"/a/x.gcda": 1, "/a/lib.gcda": 2}, files(p)); diff != "" {
		t.Errorf("unloaded: -want +got:\n%s", diff)
	}
	p.take(units("/a/x.gcda@prog", "/a/y.gcda@prog", "/a/lib.gcda@library"))
	if diff := cmp.Diff(map[string]int64{"/a/x.gcda": 1, "/a/y.gcda": 2, "/a/lib.gcda": 3}, files(p)); diff != "" {
		t.Errorf("loaded again: -want +got:\n%s", diff)
	}
}

// TestBaseline resets an object and then all.
func TestBaseline(t *testing.T) {
	p := newTree(t)
	p.take(units("/x.gcda@p", "/y.gcda@p"))
	p.placeAll()
	p.reset(p.root.children["x.gcda"])
	if diff := cmp.Diff(map[string]int64{"/x.gcda": 0, "/y.gcda": 2}, files(p)); diff != "" {
		t.Errorf("one was reset: -want +got:\n%s", diff)
	}
	later := units("/x.gcda@p", "/y.gcda@p")
	later[0].Counts.Functions[0].Counters[0].Values[0] = 11
	p.take(later)
	if diff := cmp.Diff(map[string]int64{"/x.gcda": 10, "/y.gcda": 2}, files(p)); diff != "" {
		t.Errorf("and ran: -want +got:\n%s", diff)
	}
	p.reset(nil)
	if diff := cmp.Diff(map[string]int64{"/x.gcda": 0, "/y.gcda": 0}, files(p)); diff != "" {
		t.Errorf("all were reset: -want +got:\n%s", diff)
	}
}

func TestDirectoryName(t *testing.T) {
	for name, want := range map[string]string{"redis": "7-redis", "a/b": "7-a_b", "..": "7-..", "x\ny": "7-x\\x0ay", "": "7-"} {
		if got := directoryName(7, name); got != want {
			t.Errorf("directoryName(7, %q) = %q, want %q", name, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for s, want := range map[string]string{`/mnt/a\040b`: "/mnt/a b", `/a\134b`: `/a\b`, `/a\04`: `/a\04`, `/a\999`: `/a\999`} {
		if got := unescape(s); got != want {
			t.Errorf("unescape(%q) = %q, want %q", s, got, want)
		}
	}
}

// TestOwners: what names sources belongs to the user who has chosen these names.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "programs of other users")
	}
	of := func(uid int) *target { return &target{user: &input.User{UID: uid, GID: uid}} }
	for _, c := range []struct {
		processes []*target
		uid       uint32
	}{
		{nil, 0},
		{[]*target{of(0), {}}, 0},
		{[]*target{of(0), of(4711), of(4711)}, 4711},
		{[]*target{of(4711), of(0), of(4712)}, nobody},
		{[]*target{of(4711), of(4712), of(4711)}, nobody},
	} {
		f := &file{state: empty, of: func() []*target { return c.processes }}
		var attr fuse.Attr
		f.attributes(&attr)
		if attr.Uid != c.uid {
			t.Errorf("of %d processes: belongs to %d, want %d", len(c.processes), attr.Uid, c.uid)
		}
	}
}
