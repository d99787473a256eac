package tracefiles

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"footfall/coverage"
)

// FuzzRead gives any bytes to the reader: it must end, and what it returns keep
// the promises of coverage.Set.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"SF:/a.c\nFNDA:1,f\nBRDA:1,fU0,0,1\nBRDA:2,0,0,1\n#BRDA:2,l0,0,1\n#BRDA:2,lg1,0,-\nend_of_record\nSF:/a.c\nDA:1,1e+19\nFN:1,f\nFN:2,f@2\n",
		"TN:t\nSF:/a.c\nFN:1,f\nFNDA:1,f\nFNL:0,3,4\nFNA:0,1,_Z1fv\nBRDA:1,e0,2 -> 3,1\nBRDA:1,0,1,-\nMCDC:1,2,t,1,0,x\nDA:1,1\nend_of_record\n",
		`{"gcc_version":"12","files":[{"lines":[{"branches":[{"count":1,"throw":false,"fallthrough":true}],"count":1,"line_number":3,"function_name":"f"}],"functions":[{"name":"f","start_line":3,"start_column":1}],"file":"a.c"}],"format_version":"1","current_working_directory":"/x"}`,
		`{"gcovr/format_version":"0.15","files":[{"file":"a.c","lines":[{"line_number":1,"count":2,"conditions":[{"count":4,"covered":1,"not_covered_true":[0],"not_covered_false":null}]}],"functions":[{"name":"f","lineno":1,"pos":["1:2","3:4"],"execution_count":1e3}]}]}`,
		`{"format":"footfall coverage","files":[{"file":"a","lines":[{"line":1,"count":1,"branches":[{"block":0,"count":1,"list":true}],"told":[{"block":0,"count":1,"list":true},{"block":1,"count":1}]}],"told":[{"name":"f","line":1,"count":2}],"tests":[{"name":"t","lines":[1,1,3,2]}]}]}`,
		`<?xml version="1.0"?><!DOCTYPE coverage SYSTEM "x"><coverage><sources><source>/a&amp;b</source></sources><class filename="c.c"><methods><method name="f"><lines><line number="1" hits="1"/></lines></method></methods><lines><line number="1" hits="1" branch="true" condition-coverage="50% (1/2)"/></lines></class></coverage>`,
		"mode: count\na/b.go:1.10,3.2 2 1\na/b.go:3.2,5.2 1 0\n",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newReader(newSources(Options{}), Options{Root: os.TempDir()})
		if err := r.readFrom(filepath.Join(os.TempDir(), "fuzz"), bytes.NewReader(data)); err != nil {
			return
		}
		set := r.sum.Set()
		set.Reconcile(PlainName)
		check(t, set)
		if len(r.problems) > manyProblems+10 {
			t.Errorf("%d problems", len(r.problems))
		}
	})
}

// check fails where a set breaks the promises of its types.
func check(t *testing.T, set *coverage.Set) {
	t.Helper()
	for i, f := range set.All() {
		if i > 0 && set.At(i-1).Name >= f.Name {
			t.Errorf("files out of order: %q", f.Name)
		}
		for k, l := range f.Lines {
			if l.Number <= 0 || k > 0 && f.Lines[k-1].Number >= l.Number || l.Count < 0 || l.Unexecuted && l.Count == 0 {
				t.Errorf("%s: line %+v", f.Name, l)
			}
			for n, b := range l.Branches {
				if b.Block < 0 || b.Count < 0 || n > 0 && b.Block < l.Branches[n-1].Block {
					t.Errorf("%s:%d: branch %+v", f.Name, l.Number, b)
				}
			}
		}
		for k, fn := range f.Functions {
			if len(fn.Instances) == 0 || fn.Name != fn.Instances[0].Name || fn.Count < 0 || k > 0 && fn.StartLine < f.Functions[k-1].StartLine {
				t.Errorf("%s: function %+v", f.Name, fn)
			}
		}
		for k, test := range f.Tests {
			if test.Name == "" || k > 0 && f.Tests[k-1].Name >= test.Name || len(test.Hits) == 0 {
				t.Errorf("%s: test %+v", f.Name, test)
			}
			last := int32(0)
			for line, count := range test.Hits.All() {
				if line <= last || count <= 0 {
					t.Errorf("%s: test %s: line %d: %d", f.Name, test.Name, line, count)
				}
				last = line
			}
		}
	}
}
