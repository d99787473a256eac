//go:build linux

package target

import (
	"fmt"
	"path/filepath"
	"strings"

	"footfall/binary"
	"footfall/demangle"
)

// An Entry is where a function of an image begins, with the space that the compiler
// left there for a jump, if it did.
type Entry struct {
	binary.Site
	Addr  uint64 // in the process
	Image *Image
}

// Sites lists the sites of the image, and how many entries of its lists cannot
// be used.
func (i *Image) Sites() ([]*Entry, int, error) {
	if !i.File.HasSites() {
		return nil, 0, nil
	}
	found, unusable, err := i.File.Sites(i.Names())
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", i.Path, err)
	}
	sites := make([]*Entry, len(found))
	for n, site := range found {
		sites[n] = &Entry{Site: site, Addr: site.Addr + i.Bias, Image: i}
	}
	return sites, unusable, nil
}

// Functions lists the functions of the image, whether they have room or not, but
// for those of which only a name is known. Their sites are the functions' first
// instructions.
func (i *Image) Functions() []*Entry {
	var sites []*Entry
	for _, fn := range i.Names() {
		if fn.Size > 0 && !fn.Indirect && i.File.FileOffset(fn.Addr) > 0 && !strings.HasSuffix(fn.Name, "@plt") {
			sites = append(sites, &Entry{Site: binary.Site{Addr: fn.Addr, Function: fn}, Addr: fn.Addr + i.Bias, Image: i})
		}
	}
	return sites
}

// FileOffset returns where in the image's file the site is.
func (s *Entry) FileOffset() uint64 { return s.Image.File.FileOffset(s.Site.Addr) }

// Parameters returns those of the function of a site, as binary.Lines does.
func (s *Entry) Parameters() ([]binary.Parameter, error) {
	i := s.Image
	i.loadLines()
	if i.lines == nil {
		return nil, binary.ErrNoLines
	}
	return i.lines.Parameters(s.body() - i.Bias)
}

// body is where the function goes on: GCC's debug information of one on arm64 begins
// behind the nops.
func (s *Entry) body() uint64 { return s.Addr + uint64(s.Size) }

// Source returns where the function of a site begins in the source; "" if that
// is not known.
func (s *Entry) Source() (file string, line int) {
	frames := s.Image.Frames(s.body())
	if len(frames) == 0 {
		return "", 0
	}
	f := frames[len(frames)-1]
	if f.DeclFile != "" {
		return f.DeclFile, f.Start
	}
	return f.File, f.Line
}

// Name returns the function's name as the language writes it.
func (s *Entry) Name() string {
	if s.Function.Name == "" {
		return fmt.Sprintf("%s+%#x", filepath.Base(s.Image.Path), s.Site.Addr)
	}
	return demangle.Full(s.Function.Name)
}
