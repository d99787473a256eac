//go:build linux

package record

import (
	"errors"
	"slices"

	"footfall/hook/patch"
	"footfall/output"
	"footfall/process/target"
)

// A selection says which functions are recorded.
type selection struct {
	take, leave, roots []target.Pattern
	arguments          []argumentsOf
}

// newSelection reads patterns. Its error is one of usage.
func newSelection(take, leave, roots, arguments []string) (s selection, err error) {
	parse := func(texts []string) (patterns []target.Pattern) {
		for _, text := range texts {
			p, parseErr := target.ParsePattern(text)
			err = errors.Join(err, parseErr)
			patterns = append(patterns, p)
		}
		return patterns
	}
	s = selection{take: parse(take), leave: parse(leave), roots: parse(roots)}
	for _, text := range arguments {
		a, parseErr := parseArguments(text)
		err = errors.Join(err, parseErr)
		s.arguments = append(s.arguments, a)
		if len(s.take) > 0 {
			s.take = append(s.take, a.pattern)
		}
	}
	if err != nil {
		err = output.UsageError(err)
	}
	return s, err
}

// named tells whether functions are named at all: else all are meant.
func (s *selection) named() bool { return len(s.take)+len(s.roots) > 0 }

// particular is a selection without patterns for simply everything. Where some functions have
// room for a jump, "everything" is these.
func (s *selection) particular() selection {
	some := *s
	some.take = slices.DeleteFunc(slices.Clone(s.take), func(p target.Pattern) bool { return p.String() == "*" })
	return some
}

// takes tells whether a function is recorded, and notes whether it is a root.
func (s *selection) takes(site *patch.EntrySite) bool {
	fits := func(patterns []target.Pattern) bool {
		return slices.ContainsFunc(patterns, func(pattern target.Pattern) bool { return pattern.Matches(&site.Entry) })
	}
	if fits(s.leave) {
		return false
	}
	site.Root = fits(s.roots)
	return len(s.take) == 0 || site.Root || fits(s.take)
}

// ofLibraries returns what is to be recorded of functions of libraries that have no room for
// a jump, where the images are all that there are. A pattern is for libraries if it names one,
// or fits nothing in the program itself.
func (s *selection) ofLibraries(images []*target.Image) selection {
	rest := func(patterns []target.Pattern) []target.Pattern {
		return slices.DeleteFunc(slices.Clone(patterns), func(pattern target.Pattern) bool {
			return slices.ContainsFunc(images, func(i *target.Image) bool {
				return i.IsProgram() && slices.ContainsFunc(i.Functions(), pattern.Matches)
			})
		})
	}
	l := selection{take: rest(s.take), leave: s.leave, roots: rest(s.roots), arguments: s.arguments}
	l.take = append(l.take, l.roots...)
	return l
}
