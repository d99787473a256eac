package report

import (
	"fmt"

	"footfall/coverage"
	"footfall/tracefiles"
)

// ReadFile reads a report that footfall or another tool has written: a
// tracefile of lcov, JSON, Cobertura or a profile of Go, see package tracefiles.
// The names of sources are seen from the root where the file does not say, and
// sources decides which are kept; nil keeps all. The error says why nothing of
// it can be used.
func ReadFile(name string, sources *Sources) (*coverage.Set, []Problem, error) {
	set, problems, err := tracefiles.Read(name, tracefileOptions(sources))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return set, tracefileProblems(problems), nil
}

func tracefileOptions(sources *Sources) (o tracefiles.Options) {
	if sources != nil {
		o.Source = sources.Resolve
	}
	return o
}

func tracefileProblems(problems []tracefiles.Problem) []Problem {
	var out []Problem
	for _, p := range problems {
		err := p.Err
		if p.Line > 0 {
			err = fmt.Errorf("line %d: %w", p.Line, p.Err)
		}
		out = append(out, newProblem(badRecord, p.File, err))
	}
	return out
}
