package profile

import (
	"path/filepath"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"footfall/binary"
	"footfall/compile/instrument"
)

// What counted functions call by name and what does not count itself, such as functions of
// the C library, is where the dynamic linker finds the name: in the program, in libraries
// that were loaded with it though nothing needs them, in those that it needs, in those that
// these need, and so on. What a file has for itself alone is its own.

// A linkedFile is a program or library in which names are looked for.
type linkedFile struct {
	image       *image // without a file if it is not here
	exports     map[string]binary.FunctionSymbol
	definitions map[string]binary.FunctionSymbol // nil: not read yet
	needed      []string
	name        string // by which others need it
}

// uncountedKey is a function that does not count, as an image calls it.
type uncountedKey struct {
	image *instrument.CountedImage
	name  string
}

// uncounted is the function of that name which an image calls.
func (r *countsReader) uncounted(im *instrument.CountedImage, name string) *pprof.Location {
	key := uncountedKey{im, name}
	l := r.uncounteds[key]
	if l == nil {
		switch i, f := r.definition(im, name); {
		case i == nil:
			l = r.b.named(name, "")
		case f.Indirect: // also if what chooses counts
			l = r.b.named(name, i.path)
		default:
			l = r.called(i, f.Addr)
		}
		r.uncounteds[key] = l
	}
	return l
}

// definition returns the function that an image calls by a name, and where it is, nil if
// that is not known.
func (r *countsReader) definition(im *instrument.CountedImage, name string) (*image, binary.FunctionSymbol) {
	own := r.linked(im.Path, r.images[im])
	if own.definitions == nil && own.image.file != nil {
		own.definitions = own.image.file.Definitions()
	}
	f, defined := own.definitions[name]
	if _, exported := own.exports[name]; defined && !exported {
		return own.image, f
	}
	for _, l := range r.order(im) {
		if f, ok := l.exports[name]; ok {
			return l.image, f
		}
	}
	return nil, f
}

// linked returns the file at a path, which is opened as i if that is not nil.
func (r *countsReader) linked(path string, i *image) *linkedFile {
	l := r.files[path]
	if l == nil {
		if i == nil {
			i = r.other(path)
		}
		l = &linkedFile{image: i, name: filepath.Base(path)}
		if i.file != nil {
			l.exports = i.file.Exports()
			var name string
			if l.needed, name = i.file.Needed(); name != "" {
				l.name = name
			}
		}
		r.files[path] = l
	}
	return l
}

// order returns the files of an image's process in the order in which names are looked for.
func (r *countsReader) order(im *instrument.CountedImage) []*linkedFile {
	if all, ok := r.orders[im]; ok {
		return all
	}
	counted := make(map[string]*image)
	for other, i := range r.images {
		if other.PID == im.PID && other.Process == im.Process {
			counted[other.Path] = i
		}
	}
	var files []*linkedFile // the program lies lowest
	for _, m := range im.Maps {
		if !strings.HasPrefix(m.Path, "/") {
			continue
		}
		if l := r.linked(m.Path, counted[m.Path]); !slices.Contains(files, l) {
			files = append(files, l)
		}
	}
	var needed []*linkedFile
	for at := -1; at < len(needed) && len(files) > 0; at++ {
		names := files[0].needed
		if at >= 0 {
			names = needed[at].needed
		}
		for _, name := range names {
			i := slices.IndexFunc(files, func(l *linkedFile) bool { return l.name == name })
			if i >= 0 && !slices.Contains(needed, files[i]) {
				needed = append(needed, files[i])
			}
		}
	}
	all := append(slices.DeleteFunc(files, func(l *linkedFile) bool { return slices.Contains(needed, l) }), needed...)
	r.orders[im] = all
	return all
}
