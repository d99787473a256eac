package tracefiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
)

// readText reads text as a file.
func readText(t *testing.T, text string) (*coverage.Set, []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	set, problems, err := Read(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set, texts(problems)
}

// texts are the problems without the name of the file.
func texts(problems []FileProblem) (out []string) {
	for _, p := range problems {
		p.File = "file"
		out = append(out, p.Error())
	}
	return out
}

func TestLcovRecords(t *testing.T) {
	line := func(n int32, count int64, branches ...coverage.Branch) coverage.Line {
		return coverage.Line{Number: n, Count: count, Branches: branches}
	}
	way := func(block int32, count int64) coverage.Branch {
		return coverage.Branch{Block: block, Count: count, Evaluated: true}
	}
	list := func(branches ...coverage.Branch) []coverage.Branch {
		for i := range branches {
			branches[i].List = true
		}
		return branches
	}
	function := func(start, end int32, instances ...coverage.Instance) *coverage.Function {
		f := &coverage.Function{StartLine: start, EndLine: end, Name: instances[0].Name, Instances: instances}
		for _, in := range instances {
			f.Count += in.Count
		}
		return f
	}
	for _, test := range []struct {
		name, records string
		want          coverage.File
	}{
		{"lines", "DA:1,2\nDA:2,0,PlvJ7lWhOhtmMkhZ2pUZ5A\n", coverage.File{Lines: []coverage.Line{line(1, 2), line(2, 0)}}},
		{"lines that end in CR", "DA:1,2\r\nDA:3,4\r\n", coverage.File{Lines: []coverage.Line{line(1, 2), line(3, 4)}}},
		{"a line twice, in no order", "DA:2,1\nDA:1,3\nDA:2,5\n", coverage.File{Lines: []coverage.Line{line(1, 3), line(2, 6)}}},
		{"a count that is too large", "DA:1,99999999999999999999\n", coverage.File{Lines: []coverage.Line{line(1, 1<<63-1)}}},
		{"functions", "FN:1,f\nFN:5,7,g\nFNDA:3,f\nFNDA:0,g\n",
			coverage.File{Functions: []*coverage.Function{function(1, 0, coverage.Instance{Name: "f", Count: 3}), function(5, 7, coverage.Instance{Name: "g"})}}},
		{"calls in another order", "FN:1,f\nFN:5,g(int, 7)\nFNDA:1,g(int, 7)\nFNDA:3,f\n",
			coverage.File{Functions: []*coverage.Function{function(1, 0, coverage.Instance{Name: "f", Count: 3}), function(5, 0, coverage.Instance{Name: "g(int, 7)", Count: 1})}}},
		{"names of one function", "FNL:0,1,3\nFNA:0,2,_Z1fIlEvv\nFNA:0,1,_Z1fIiEvv\n",
			coverage.File{Functions: []*coverage.Function{function(1, 3, coverage.Instance{Name: "_Z1fIiEvv", Count: 1}, coverage.Instance{Name: "_Z1fIlEvv", Count: 2})}}},
		{"functions of C on one line", "FNL:0,1\nFNA:0,2,g\nFNA:0,0,f\n",
			coverage.File{Functions: []*coverage.Function{function(1, 0, coverage.Instance{Name: "f"}), function(1, 0, coverage.Instance{Name: "g", Count: 2})}}},
		{"branches of lcov 1: one list", "BRDA:1,0,0,1\nBRDA:1,0,1,0\nBRDA:1,0,2,-\nBRDA:1,0,3,-\nDA:1,1\n",
			coverage.File{Lines: []coverage.Line{line(1, 1, list(way(0, 1), way(0, 0), coverage.Branch{}, coverage.Branch{})...)}}},
		{"branches of lcov 1, with several records of a line", "DA:1,1\nBRDA:1,0,0,1\nBRDA:1,0,1,0\nDA:1,3\nBRDA:1,0,0,3\nBRDA:1,0,1,-\n",
			coverage.File{Lines: []coverage.Line{line(1, 4, list(way(0, 4), way(0, 0))...)}}},
		{"branches of lcov 2.5", "BRDA:1,f0,2 -> 3,1\nBRDA:1,0,2 -> 10,0\nBRDA:1,f0,10 -> 11,2\nBRDA:1,e0,10 -> 20,0\nDA:1,1\n",
			coverage.File{Lines: []coverage.Line{line(1, 1,
				coverage.Branch{Count: 1, Evaluated: true, Fallthrough: true}, way(0, 0),
				coverage.Branch{Block: 1, Count: 2, Evaluated: true, Fallthrough: true, Exception: true},
				coverage.Branch{Block: 1, Evaluated: true, Throw: true, Exception: true})}}},
		{"branches with a text", "BRDA:1,0,if, yes,1\nBRDA:1,0,if, no,0\nDA:1,1\n", coverage.File{Lines: []coverage.Line{line(1, 1, list(way(0, 1), way(0, 0))...)}}},
		{"branches that are excluded", "BRDA:1,0,0,1\nBRDA:1,U0,1,0\nBRDA:1,eU0,2,0\nBRDA:1,1,0,2\nDA:1,1\n", coverage.File{Lines: []coverage.Line{line(1, 1, way(0, 1), way(1, 2))}}},
		{"a branch twice, one torn", "BRDA:1,0,0,10\nBRDA:1,0,1,1\nBRDA:1,0,0,5\nDA:1,1\n", coverage.File{Lines: []coverage.Line{line(1, 1, list(way(0, 15), way(0, 1))...)}}},
		{"footfall's own", "BRDA:1,0,0,9\nBRDA:1,0,1,9\n#BRDA:1,0,0,1\n#BRDA:1,0,1,2\n#BRDA:1,l1,0,3\n#BRDA:1,l1,1,-\n#BRDA:1,l1,2,-\n#BRDA:1,lg2,0,1\n# BRDA:x\nDA:1,1\n",
			coverage.File{Lines: []coverage.Line{line(1, 1, slices.Concat([]coverage.Branch{way(0, 1), way(0, 2)}, list(way(1, 3), coverage.Branch{Block: 1}, coverage.Branch{Block: 1}),
				[]coverage.Branch{{Block: 2, List: true, Guessed: true, Count: 1, Evaluated: true}})...)}}},
		{"calls before their function", "FNDA:5,f\nFNDA:1,g\nFN:1,f\nFN:2,g\nFNDA:2,f\n",
			coverage.File{Functions: []*coverage.Function{function(1, 0, coverage.Instance{Name: "f", Count: 7}), function(2, 0, coverage.Instance{Name: "g", Count: 1})}}},
		{"what belongs together in several records", "FNDA:5,f\nBRDA:1,0,0,1\nBRDA:1,0,1,0\nMCDC:1,1,t,1,0,0\nMCDC:1,1,f,0,0,0\nend_of_record\nSF:/a.c\nFN:1,f\nDA:1,5\n",
			coverage.File{
				Functions: []*coverage.Function{function(1, 0, coverage.Instance{Name: "f", Count: 5})},
				Lines:     []coverage.Line{{Number: 1, Count: 5, Branches: list(way(0, 1), way(0, 0)), Conditions: []coverage.Condition{{Terms: []coverage.Term{{True: true}}}}}},
			}},
		{"functions of a name", "FN:2,f\nFN:6,f@6\nFN:9,f@6\nFN:9,@9\nFNDA:1,f\nFNDA:2,f@6\n",
			coverage.File{Functions: []*coverage.Function{
				function(2, 0, coverage.Instance{Name: "f", Count: 1}), function(6, 0, coverage.Instance{Name: "f", Count: 2}),
				function(9, 0, coverage.Instance{Name: "@9"}), function(9, 0, coverage.Instance{Name: "f@6"})}}},
		{"numbers of Perl", "DA:1,1.8446744073709552e+19\nDA:2,1e3\nDA:3,2e+20,checksum\n", coverage.File{Lines: []coverage.Line{line(1, 1<<63-1), line(2, 1000), line(3, 1<<63-1)}}},
		{"conditions", "MCDC:1,U2,t,1,2,2\nMCDC:1,2,t,1,0,0\nMCDC:1,2,f,0,0,0\nMCDC:1,2,t,0,1,1\nMCDC:1,2,f,1,1,1\nMCDC:1,2,t,1,2,2\nMCDC:1,2,f,1,2,2\nMCDC:1,2,t,0,3,3\nMCDC:1,2,f,0,3,3\nDA:1,1\n",
			coverage.File{Lines: []coverage.Line{{Number: 1, Count: 1, Conditions: []coverage.Condition{
				{Terms: []coverage.Term{{True: true}, {False: true}}}, {Terms: []coverage.Term{{True: true, False: true}, {}}}}}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, problems := readText(t, "TN:\nSF:/a.c\n"+test.records+"end_of_record\n")
			test.want.Name = "/a.c"
			if diff := cmp.Diff([]*coverage.File{&test.want}, set.Files()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(problems) > 0 {
				t.Errorf("problems: %s", problems)
			}
		})
	}
}

func TestLcovTests(t *testing.T) {
	set, problems := readText(t, "TN:one\nSF:/a.c\nDA:1,1\nDA:2,0\nend_of_record\nSF:/b.c\nDA:5,1\nend_of_record\n"+
		"TN:two\nSF:/a.c\nDA:1,4\nDA:2,1\nend_of_record\nTN:\nSF:/a.c\nDA:2,3\nend_of_record\n")
	hits := func(pairs ...int64) coverage.Hits {
		var lines []coverage.Line
		for i := 0; i < len(pairs); i += 2 {
			lines = append(lines, coverage.Line{Number: int32(pairs[i]), Count: pairs[i+1]})
		}
		return coverage.AppendHits(nil, lines)
	}
	want := coverage.NewSet(
		&coverage.File{Name: "/a.c", Lines: []coverage.Line{{Number: 1, Count: 5}, {Number: 2, Count: 4}},
			Tests: []coverage.Test{{Name: "one", Hits: hits(1, 1)}, {Name: "two", Hits: hits(1, 4, 2, 1)}}},
		&coverage.File{Name: "/b.c", Lines: []coverage.Line{{Number: 5, Count: 1}}, Tests: []coverage.Test{{Name: "one", Hits: hits(5, 1)}}},
	)
	if diff := cmp.Diff(want.Files(), set.Files()); diff != "" || len(problems) > 0 {
		t.Errorf("problems %v (-want +got)\n%s", problems, diff)
	}
}

func TestLcovProblems(t *testing.T) {
	set, problems := readText(t, strings.Join([]string{
		"TN:", "SF:/a.c", "DA:1", "DA:x,1", "DA:2,1", "DA:3,-4", "FN:3,f", "FNDA:-1,f", "BRDA:3,0,0,-7", "FNDA:1,gone", "BRDA:7,0,0,1", "NEW:1", "NEW:2", "nonsense", "MCDC:1,9999999,t,1,0,0", "SF:/b.c", "DA:1,1",
	}, "\n"))
	want := []string{
		"file: line 3: expected DA:line,count",
		"file: line 4: expected DA:line,count",
		`file: line 12: records "NEW" are not known and left out`,
		`file: line 14: "nonsense" is no record of a tracefile`,
		"file: line 15: expected MCDC:line,terms,t or f,shown,index,text",
		"file: line 16: a source begins before end_of_record of the one before",
		"file: line 17: the file ends before end_of_record; is it complete?",
		"file: 3 negative counts, torn by threads, are taken as 0",
		`file: calls of "gone" are left out: no report says where it starts (FN)`,
		"file: branches or conditions of line 7 are left out: no report has a count for it (DA)",
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := set.Totals().Lines; got != (coverage.Ratio{Covered: 2, Total: 3}) {
		t.Errorf("lines %+v", got)
	}
}
