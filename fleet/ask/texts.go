package ask

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"time"

	"footfall/fleet/store"
	"footfall/fleet/units"
)

// Errors of sources of which there is no text.
var (
	ErrNoSources = errors.New("sources are not on this server")
	errNotThere  = errors.New("its text is not on this server")
	errVersions  = errors.New("there are several versions of its text: choose a release")
)

// NoSources reads none.
func NoSources(string) ([]byte, error) { return nil, ErrNoSources }

// Texts are those of the sources of a selection, as far as they were sent.
type Texts struct {
	ask    *Ask
	hashes map[string][]store.Hash // by the names of sources: that of the newest build, or all if that is not known
	// several are the names of those of which the builds have several versions.
	several map[string]bool
}

// mostNewest is of how many builds it is looked which text is the newest.
const mostNewest = 100

// Texts returns those of the selection of [Ask.Coverage].
func (a *Ask) Texts(ctx context.Context, values url.Values) (*Texts, error) {
	p, err := parse(values, a.now())
	if err != nil {
		return nil, err
	}
	if err := a.origin(ctx, p); err != nil {
		return nil, err
	}
	with, _, err := a.evidence(ctx, &p.Query)
	if err != nil || len(with) == 0 {
		return &Texts{ask: a}, err
	}
	t := &Texts{ask: a}
	if t.hashes, err = a.textsOf(ctx, buildsOf(with)...); err != nil {
		return nil, err
	}
	t.several = make(map[string]bool)
	for name, list := range t.hashes {
		if len(list) > 1 {
			t.several[name] = true
		}
	}
	open := maps.Clone(t.several)
	slices.SortStableFunc(with, func(a, b BuildEvidence) int { return b.Last.Compare(a.Last) })
	for _, build := range with[:min(len(with), mostNewest)] {
		if len(open) == 0 {
			break
		}
		its, err := a.textsOf(ctx, build.Build)
		if err != nil {
			return nil, err
		}
		for name, list := range its {
			if open[name] {
				t.hashes[name] = list
				delete(open, name)
			}
		}
	}
	return t, nil
}

// textsOf returns the hashes of texts of builds by the names of their sources.
func (a *Ask) textsOf(ctx context.Context, builds ...string) (map[string][]store.Hash, error) {
	found := make(map[string][]store.Hash)
	return found, a.Store.Units(ctx, &store.Query{Builds: builds, Texts: true}, func(hash store.Hash, u store.Unit) error {
		if path, keep := a.resolve(u.Name); keep {
			found[path] = append(found[path], hash)
		}
		return nil
	})
}

// Doubt says of the text of a source that it may be another one than what was counted.
func (t *Texts) Doubt(name string) string {
	if !t.several[name] {
		return ""
	}
	return "Several versions of the source were sent: this is the newest, and counts of others stand beside it, too. Pages of a release have its own."
}

// Any tells whether there are any.
func (t *Texts) Any() bool { return len(t.hashes) > 0 }

// patience is how long a text is waited for.
const patience = 30 * time.Second

// Read returns the text of a source. It is for as long as the store is open.
func (t *Texts) Read(name string) (text []byte, err error) {
	switch hashes := t.hashes[name]; {
	case !t.Any():
		return nil, ErrNoSources
	case len(hashes) == 0:
		return nil, errNotThere
	case len(hashes) > 1:
		return nil, errVersions
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := false
	err = t.ask.Store.Programs(ctx, t.hashes[name], func(_ store.Hash, u store.Unit) error {
		found = true
		text, err = units.TextOf(&u)
		return err
	})
	if err == nil && !found {
		err = errNotThere
	}
	return text, err
}
