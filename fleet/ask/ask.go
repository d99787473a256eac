// Package ask answers questions about what a fleet has run: what of a release, what never, what since
// when, where, in which tests.
//
// An [Ask] answers from a store, a [Client] asks a server that has one ([API]). Answers are values: [Answer] has
// their text for people, and their JSON, which docs/fleet-questions.md describes, is stable.
//
// # What an answer may say
//
// That something never ran means little where nobody looked. So what is said not to have run comes with the
// builds that have it and that were looked at, and on how many hosts; what is in no such build has "no data". Where it
// is in doubt whether something ran it did: times are those at which windows began, and a period begins with
// a day.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"footfall/coverage"
	"footfall/fleet/store"
)

// A Fleet is who can be asked.
type Fleet interface {
	// Answer answers a question of [Questions].
	Answer(ctx context.Context, question string, parameters url.Values) (Answer, error)
	// Coverage returns the coverage of a selection, see [Ask.Coverage].
	Coverage(ctx context.Context, parameters url.Values) (*coverage.Set, error)
}

// An Answer is what is known, as JSON and for people.
type Answer interface {
	// Text writes it.
	Text(w io.Writer, s Style) error
}

// A Style is how an answer is shown.
type Style struct {
	// Shown returns the name to show for a source; nil: as it is.
	Shown func(file string) string
	// Owners are whose the sources are; nil: that is not known.
	Owners *Owners
	// By is what is counted by, one of [Groupings], "" for directories.
	By string
	// All shows all rows, where else the first ones are shown.
	All bool
}

func (s Style) shown(file string) string {
	if s.Shown == nil {
		return file
	}
	return s.Shown(file)
}

// Errors of questions.
var (
	ErrUnknown = errors.New("there is no such question")
	ErrWrong   = errors.New("the question cannot be understood")
	ErrNoData  = errors.New("nobody has reported of that")
)

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrWrong, fmt.Sprintf(format, args...))
}

// An Ask answers from a store. It may be used by several goroutines.
type Ask struct {
	Store store.Reader
	// Resolve says which source a recorded name is, and whether it counts; nil: all do, with the names as they are.
	Resolve func(name string) (path string, keep bool)
	// Owners are whose sources are, for answers by owner; nil: that is not known.
	Owners *Owners
	// Now is the time; nil: that of the clock.
	Now func() time.Time

	known catalogue
}

func (a *Ask) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

func (a *Ask) resolve(name string) (string, bool) {
	if a.Resolve == nil {
		return name, true
	}
	return a.Resolve(name)
}

// A question is what can be asked.
type question struct {
	name   string
	takes  []string // parameters beside those of a selection
	answer func(*Ask, context.Context, *parameters) (Answer, error)
	empty  func() Answer // for JSON to be read into
}

var questions = sync.OnceValue(func() []question {
	return []question{
		{"releases", nil, (*Ask).releases, func() Answer { return new(Releases) }},
		{"never-ran", []string{"days"}, (*Ask).neverRan, func() Answer { return new(NeverRan) }},
		{"changed", []string{"since", "until"}, (*Ask).changed, func() Answer { return new(Changed) }},
		{"who", []string{"of"}, (*Ask).who, func() Answer { return new(Who) }},
		{"tests", []string{"of"}, (*Ask).tests, func() Answer { return new(Tests) }},
		{"trend", []string{"by"}, (*Ask).trend, func() Answer { return new(Trend) }},
		{"sizes", nil, (*Ask).sizes, func() Answer { return new(Sizes) }},
	}
})

// Questions are the names of those that there are.
func Questions() []string {
	var names []string
	for _, q := range questions() {
		names = append(names, q.name)
	}
	return names
}

func questionNamed(name string) (question, error) {
	all := questions()
	i := slices.IndexFunc(all, func(q question) bool { return q.name == name })
	if i < 0 {
		return question{}, fmt.Errorf("%w as %q; there are %s", ErrUnknown, name, strings.Join(Questions(), ", "))
	}
	return all[i], nil
}

// Answer answers a question.
func (a *Ask) Answer(ctx context.Context, name string, values url.Values) (Answer, error) {
	q, err := questionNamed(name)
	if err != nil {
		return nil, err
	}
	p, err := parse(values, a.now(), q.takes...)
	if err != nil {
		return nil, err
	}
	return q.answer(a, ctx, p)
}
