package collect

import (
	"time"

	"footfall/collect/find"
	"footfall/formats/gocover"
	"footfall/input"
)

// Made returns when the newest of the data was written, see [Result.NotBefore].
func (r *Result) Made() time.Time {
	if r.made.IsZero() {
		r.made = newest(r.Objects)
	}
	return r.made
}

// NotBefore has the result be as new as another that was combined with it.
func (r *Result) NotBefore(other *Result) {
	if r.Made().Before(other.Made()) {
		r.made = other.made
	}
}

// newest returns when the last of the data files and reports was written, or of the
// notes if there are none.
func newest(objects *find.Objects) time.Time {
	var data, notes time.Time
	for _, name := range objects.Reports {
		data = later(data, input.Modified(name))
	}
	for _, p := range objects.Profiles {
		data = later(data, input.Modified(p.Name))
	}
	for _, f := range objects.Go {
		if at := input.Modified(f.Name); gocover.IsMetaName(f.Name) {
			notes = later(notes, at)
		} else {
			data = later(data, at)
		}
	}
	for _, b := range objects.Binaries {
		notes = later(notes, input.Modified(b.Name))
	}
	for _, u := range objects.Units {
		for _, name := range u.Data {
			data = later(data, input.Modified(name))
		}
	}
	if !data.IsZero() {
		return data
	}
	for _, u := range objects.Units {
		notes = later(notes, input.Modified(u.Notes))
	}
	return notes
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
