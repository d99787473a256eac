//go:build linux

package collect

import (
	"fmt"

	"footfall/report/source"
)

// This file tells what is wrong with targets: at once, or, of those that are
// followed, when it is first seen and where a screen shows it.

// OnScreen has what is said kept for Said, in place of standard error.
func (l *Targets) OnScreen() { l.following, l.pending = true, new([]string) }

// Said returns what was said since it was last called.
func (l *Targets) Said() []string {
	said := *l.pending
	*l.pending = nil
	return said
}

// SaidOnce has what is the same at each look said once from now on.
func (l *Targets) SaidOnce() { l.following = true }

// say tells something about a target.
func (l *Targets) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if l.pending != nil {
		*l.pending = append(*l.pending, text)
		return
	}
	fmt.Fprintf(l.options.Stderr, "footfall: %s\n", text)
}

// sayOnce is say for what is the same at each tick.
func (l *Targets) sayOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if l.said == nil {
		l.said = make(map[string]bool)
	}
	if !l.said[text] {
		l.said[text] = true
		l.say("%s", text)
	}
}

// problem keeps errors that were joined until they are told.
func (l *Targets) problem(title string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			l.problem(title, err)
		}
		return
	}
	if l.following {
		l.sayOnce("%s: %v", title, err)
		return
	}
	l.problems = append(l.problems, source.Problem{File: title, Offset: -1, Kind: "objects that cannot be read", Err: err})
}

// PrintProblems tells what was wrong so far with reading the targets.
func (l *Targets) PrintProblems() {
	source.PrintProblems(l.options.Stderr, l.problems, l.options.Verbose)
}

// sayMore says, at later looks, that there are more problems than before.
func (l *Targets) sayMore(problems []source.Problem, told bool) {
	of := make(map[string]int)
	for _, p := range problems {
		of[p.Kind]++
	}
	for _, p := range problems {
		if of[p.Kind] > l.problemsOf[p.Kind] {
			if !told {
				l.sayOnce("%s: %v", p.Kind, p)
			}
		}
	}
	l.problemsOf = of
}
