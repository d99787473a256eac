//go:build linux

package target

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"footfall/demangle"
)

// A Pattern chooses functions:
//
//	GLOB             functions, by the linker's name or as C++ and Rust write it,
//	                 with or without parameters
//	FILE:GLOB        those of a source file
//	LIBRARY:GLOB     those of a program or library
//	/EXPRESSION/     by a regular expression, which may fit anywhere in the name
//
// FILE and LIBRARY are globs, too, for the last part of the path.
type Pattern struct {
	text    string
	where   *regexp.Regexp
	name    *regexp.Regexp
	library string
}

func (p Pattern) String() string { return p.text }

// NamesLibrary returns what in the pattern says that it is for a shared library,
// "" if nothing does.
func (p Pattern) NamesLibrary() string { return p.library }

// In tells whether the pattern may choose functions of an image of that path.
func (p Pattern) In(path string) bool {
	return p.where == nil || p.where.MatchString(filepath.Base(path))
}

// ParsePattern reads a pattern.
func ParsePattern(s string) (Pattern, error) {
	if len(s) > 1 && s[0] == '/' && s[len(s)-1] == '/' {
		name, err := regexp.Compile(s[1 : len(s)-1])
		if err != nil {
			return Pattern{}, fmt.Errorf("pattern %q: %w", s, err)
		}
		return Pattern{text: s, name: name}, nil
	}
	if s == "" {
		return Pattern{}, fmt.Errorf("pattern %q names no function", s)
	}
	p := Pattern{text: s}
	if i := singleColon(s); i >= 0 {
		p.where = glob(s[:i])
		if strings.Contains(s[:i], ".so") {
			p.library = s[:i]
		}
		s = s[i+1:]
	}
	p.name = glob(s)
	return p, nil
}

// singleColon finds a colon that is not part of "::".
func singleColon(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] != ':' {
			continue
		}
		if i+1 < len(s) && s[i+1] == ':' {
			i++
			continue
		}
		return i
	}
	return -1
}

func glob(s string) *regexp.Regexp {
	s = regexp.QuoteMeta(s)
	s = strings.ReplaceAll(strings.ReplaceAll(s, `\*`, ".*"), `\?`, ".")
	return regexp.MustCompile("^(?s:" + s + ")$")
}

// Matches tells whether the pattern chooses the function.
func (p Pattern) Matches(s *Entry) bool {
	if p.where != nil && !p.where.MatchString(filepath.Base(s.Image.Path)) {
		if p.library != "" {
			return false // to find the source files of all functions would take long
		}
		file, _ := s.Source()
		if file == "" || !p.where.MatchString(filepath.Base(file)) {
			return false
		}
	}
	return p.named(s.Function.Name) || p.name.MatchString(s.Name())
}

// Fits tells whether the pattern chooses a function that the linker calls symbol,
// of an image and a source file, "" if that is not known.
func (p Pattern) Fits(symbol, image, file string) bool {
	if p.where != nil && !p.where.MatchString(filepath.Base(image)) && (file == "" || !p.where.MatchString(filepath.Base(file))) {
		return false
	}
	return p.named(symbol)
}

// named tells whether one of the names of a symbol fits.
func (p Pattern) named(symbol string) bool {
	if p.name.MatchString(symbol) || p.name.MatchString(demangle.Full(symbol)) {
		return true
	}
	return p.name.MatchString(demangle.Bare(symbol))
}
