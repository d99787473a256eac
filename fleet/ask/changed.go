package ask

import (
	"context"
	"fmt"
	"io"
	"slices"

	"footfall/fleet/store"
)

// Changed is what runs, or runs no more, since a release.
type Changed struct {
	Since  string          `json:"since"`
	Until  string          `json:"until,omitempty"` // "": all that was reported of later
	In     string          `json:"in"`              // whose counts these are: of hosts, tests or all
	Before []BuildEvidence `json:"before"`
	After  []BuildEvidence `json:"after"`
	// Began ran after and not before, Stopped the reverse, of functions that are on both sides.
	Began   []FunctionUse `json:"began"`
	Stopped []FunctionUse `json:"stopped"`
	// Added ran, and was not there before; Removed ran, and is not there after.
	Added   []FunctionUse `json:"added"`
	Removed []FunctionUse `json:"removed"`
}

// What is known of a function.
const (
	inBefore = 1 << iota
	inAfter
	ranBefore
	ranAfter
	unsureBefore // whether it ran
	unsureAfter
)

func (a *Ask) changed(ctx context.Context, p *parameters) (Answer, error) {
	if err := p.everywhere(); err != nil {
		return nil, err
	}
	answer := &Changed{Since: p.one("since", ""), Until: p.one("until", ""), After: []BuildEvidence{}, Began: []FunctionUse{}, Stopped: []FunctionUse{}, Added: []FunctionUse{}, Removed: []FunctionUse{}}
	if answer.Since == "" {
		return nil, wrong("since is missing: the release with which others are compared")
	}
	if err := a.changedOrigin(ctx, p, answer.Since); err != nil {
		return nil, err
	}
	answer.In = originNames[p.Origin]
	all, _, err := a.evidence(ctx, &p.Query)
	if err != nil {
		return nil, err
	}
	begin := slices.IndexFunc(all, func(e BuildEvidence) bool { return e.Release == answer.Since }) // they are in order
	for _, e := range all {
		if e.Release == answer.Since {
			answer.Before = append(answer.Before, e)
		}
	}
	if len(answer.Before) == 0 {
		return nil, fmt.Errorf("since: %w: release %q", ErrNoData, answer.Since)
	}
	for i, e := range all {
		if e.Release != answer.Since && (e.Release == answer.Until || answer.Until == "" && i > begin) {
			answer.After = append(answer.After, e)
		}
	}
	if answer.Until != "" && len(answer.After) == 0 {
		return nil, fmt.Errorf("until: %w: release %q", ErrNoData, answer.Until)
	}
	builds := slices.Concat(answer.Before, answer.After)
	hosts, err := a.hosts(ctx, &p.Query)
	if err != nil {
		return nil, err
	}
	sides := make(map[*joined]int)
	functions, err := a.join(ctx, builds, p.Origin, func(f *joined, build int, s sighting) {
		in, ran, unsure := inBefore, ranBefore, unsureBefore
		if build >= len(answer.Before) {
			in, ran, unsure = inAfter, ranAfter, unsureAfter
		}
		sides[f] |= in
		if s.last != 0 {
			sides[f] |= ran
		}
		if s.unsure != 0 {
			sides[f] |= unsure
		}
	})
	if err != nil {
		return nil, err
	}
	d := &describer{builds, hosts, make(map[string]int)}
	for _, f := range functions {
		const unsure = unsureBefore | unsureAfter
		switch is := sides[f]; is &^ unsure {
		case inBefore | inAfter | ranAfter:
			if is&unsureBefore == 0 { // else it may have run then
				answer.Began = append(answer.Began, d.of(f))
			}
		case inBefore | inAfter | ranBefore:
			if is&unsureAfter == 0 {
				answer.Stopped = append(answer.Stopped, d.of(f))
			}
		case inAfter | ranAfter:
			answer.Added = append(answer.Added, d.of(f))
		case inBefore | ranBefore:
			answer.Removed = append(answer.Removed, d.of(f))
		}
	}
	if len(answer.After) == 0 { // that it is not there says nothing
		answer.Removed = []FunctionUse{}
	}
	for _, list := range [][]FunctionUse{answer.Began, answer.Stopped, answer.Added, answer.Removed} {
		worst(list)
	}
	return answer, nil
}

// changedOrigin has the counts be those of whom the release was reported by with which others are compared.
func (a *Ask) changedOrigin(ctx context.Context, p *parameters, since string) error {
	if len(p.Builds) > 0 || len(p.Releases) > 0 {
		return a.origin(ctx, p)
	}
	p.Releases = []string{since}
	defer func() { p.Releases = nil }()
	return a.origin(ctx, p)
}

// Parts are the lists of an answer, in the order in which people want to know them.
func (c *Changed) Parts() []ChangedPart {
	return []ChangedPart{
		{"stopped", "ran, and runs no more", c.Stopped}, {"began", "did not run, and runs", c.Began},
		{"removed", "ran, and is gone", c.Removed}, {"added", "is new, and runs", c.Added},
	}
}

// A ChangedPart is a list of functions.
type ChangedPart struct {
	Name, Title string
	Functions   []FunctionUse
}

// Text writes the lists.
func (c *Changed) Text(w io.Writer, s Style) error {
	err := say(w, "before: %s, %s\n", plural(len(c.Before), "build"), releasesText(c.Before))
	if err != nil {
		return err
	}
	if len(c.After) == 0 {
		if c.In == originNames[store.OnHosts] {
			return say(w, "after: no host has reported of a later release; with --in all tests count, too\n")
		}
		return say(w, "after: nothing was reported of a later release\n")
	}
	if err := say(w, "after:  %s, %s\n", plural(len(c.After), "build"), releasesText(c.After)); err != nil {
		return err
	}
	most := mostRows
	if s.All {
		most = 0
	}
	for _, part := range c.Parts() {
		if err := say(w, "\n%s: %s\n", part.Title, plural(len(part.Functions), "function")); err != nil {
			return err
		}
		if len(part.Functions) == 0 {
			continue
		}
		t := newTable("lines", "first ran", "last ran", "hosts", "function", "at").right(0, 3)
		for i := range part.Functions {
			f := &part.Functions[i]
			t.row(number(f.Lines), day(f.First), day(f.Last), number(f.Hosts), f.Function, place(s, f.File, f.Line))
		}
		if err := t.write(w, most); err != nil {
			return err
		}
	}
	return nil
}
