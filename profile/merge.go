package profile

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// Merge adds up profiles.
func Merge(ps []*Profile) (*Profile, error) {
	if len(ps) == 1 {
		return ps[0], nil
	}
	if err := alike(ps); err != nil {
		return nil, err
	}
	var all []*pprof.Profile
	var notes []string
	samples, noCallers := int64(0), ""
	for _, p := range ps {
		noCallers = cmp.Or(noCallers, p.NoCallers)
		samples += p.samples
		all = append(all, p.Profile)
		for _, note := range p.Notes {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	merged, err := mergeImages(all)
	if err != nil {
		return nil, err
	}
	return &Profile{Profile: merged, Notes: notes, NoCallers: noCallers, samples: samples}, nil
}

// mergeImages is pprof's Merge, for which functions of one name and source are one. Where
// the source is not known, here they have to be of one program or library, too: the name of
// that is made part of the source's name for a while.
func mergeImages(all []*pprof.Profile) (*pprof.Profile, error) {
	const mark = "\x00"
	paths := make(map[string]string) // by build ID: containers have other ones
	for _, p := range all {
		for f, m := range imagesOf(p) {
			path := m.File
			if m.BuildID != "" {
				if paths[m.BuildID] == "" {
					paths[m.BuildID] = path
				}
				path = paths[m.BuildID]
			}
			f.Filename += mark + path
		}
	}
	merged, err := pprof.Merge(all)
	if err == nil {
		all = append(slices.Clone(all), merged)
	}
	for _, p := range all {
		for _, f := range p.Function {
			f.Filename, _, _ = strings.Cut(f.Filename, mark)
		}
	}
	return merged, err
}

// imagesOf returns the programs or libraries of functions whose source is not known.
func imagesOf(p *pprof.Profile) map[*pprof.Function]*pprof.Mapping {
	images := make(map[*pprof.Function]*pprof.Mapping)
	for _, l := range p.Location {
		for _, line := range l.Line {
			if f := line.Function; l.Mapping != nil && images[f] == nil && sourceUnknown(f) {
				images[f] = l.Mapping
			}
		}
	}
	return images
}

// sourceUnknown tells that functions of the name in other programs are others. The unit
// that a symbol table names has no directory.
func sourceUnknown(f *pprof.Function) bool {
	return f.StartLine == 0 && !filepath.IsAbs(f.Filename)
}

// splitFunctions makes several of functions that are in several programs or libraries: other
// programs write one for each name.
func splitFunctions(p *pprof.Profile) {
	type part struct {
		f    *pprof.Function
		path string
	}
	images := imagesOf(p)
	parts := make(map[part]*pprof.Function)
	last := uint64(0)
	for _, f := range p.Function {
		last = max(last, f.ID)
	}
	for _, l := range p.Location {
		for i := range l.Line {
			f := l.Line[i].Function
			m := images[f]
			if m == nil || l.Mapping == nil || m.File == l.Mapping.File {
				continue
			}
			key := part{f, l.Mapping.File}
			if parts[key] == nil {
				last++
				other := *f
				other.ID = last
				parts[key] = &other
				p.Function = append(p.Function, &other)
			}
			l.Line[i].Function = parts[key]
		}
	}
}
