package report

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"sync"

	"footfall/coverage"
	"footfall/formats/tracefiles"
	"footfall/report/source"
)

// ReadFile reads a report that footfall or another tool has written: a
// tracefile of lcov, JSON, Cobertura or a profile of Go, see package tracefiles.
// The names of sources are seen from the root where the file does not say, and
// sources decides which are kept; nil keeps all. The error says why nothing of
// it can be used.
func ReadFile(name string, sources *source.Sources) (*coverage.Set, []source.Problem, error) {
	set, problems, err := tracefiles.Read(name, tracefileOptions(sources))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return set, tracefileProblems(problems), nil
}

// ReadOptions say what ReadFiles keeps.
type ReadOptions struct {
	Sources *source.Sources
	// Test is the name of the test for what has none; "" for none.
	Test string
	// Progress is told how many of the files have been read.
	Progress func(done, total int)
}

// ReadFiles reads reports in parallel, as ReadFile does, and returns them
// merged, but not reconciled: there may be more to come.
func ReadFiles(names []string, o ReadOptions) (*coverage.Set, []source.Problem) {
	opt := tracefileOptions(o.Sources)
	opt.Test, opt.Progress = o.Test, o.Progress
	if o.Sources != nil {
		for _, name := range names {
			o.Sources.NoteReport(name)
		}
	}
	set, problems := tracefiles.ReadAll(names, opt)
	return set, tracefileProblems(problems)
}

// Reconcile matches what the formats of reports told that know less with what
// others told, when all have been merged. Problems are what belongs to nothing.
func Reconcile(set *coverage.Set) []source.Problem {
	return tracefileProblems(tracefiles.Orphans(set.Reconcile(tracefiles.PlainName)))
}

// Intersect returns what both sets have, see coverage.Intersect.
func Intersect(a, b *coverage.Set) *coverage.Set {
	return coverage.Intersect(a, b, tracefiles.PlainName)
}

// Subtract takes from set what other has, too.
func Subtract(set, other *coverage.Set) { set.Subtract(other, tracefiles.PlainName) }

func tracefileOptions(sources *source.Sources) (o tracefiles.Options) {
	if sources != nil {
		o.Source, o.Root, o.Owners = sources.Resolve, sources.Root(), &sources.Owners
		o.Checksums = checksums(sources)
	}
	return o
}

// checksums compares what tracefiles say of the text of sources with these, each of which
// is read once.
func checksums(sources *source.Sources) func(path string, lines []tracefiles.LineChecksum) {
	var known sync.Map // by path: the lines of the source
	return func(path string, lines []tracefiles.LineChecksum) {
		if sources.Differs(path) {
			return
		}
		text, read := known.Load(path)
		if !read {
			b, err := sources.Read(path)
			var split [][]byte
			if err == nil { // else it is told where it is shown
				split = bytes.Split(b, []byte("\n"))
			}
			text, _ = known.LoadOrStore(path, split)
		}
		split := text.([][]byte)
		for _, c := range lines {
			if len(split) > 0 && (int(c.Line) > len(split) || md5.Sum(bytes.TrimSuffix(split[c.Line-1], []byte("\r"))) != c.Sum) {
				sources.NoteDiffers(path)
				return
			}
		}
	}
}

func tracefileProblems(problems []tracefiles.FileProblem) []source.Problem {
	var out []source.Problem
	for _, p := range problems {
		err := p.Err
		if p.Line > 0 {
			err = fmt.Errorf("line %d: %w", p.Line, p.Err)
		}
		kind := source.BadRecord
		if p.Cut {
			kind = source.CutReport
		}
		out = append(out, source.NewProblem(kind, p.File, err))
	}
	return out
}
