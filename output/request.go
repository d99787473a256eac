package output

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// A FormatKind is what a format is made of, on which depends where it may go.
type FormatKind int

const (
	Lines FormatKind = iota // text, for any place
	Bytes                   // a page or packed data, which do a terminal no good
	Tree                    // a directory of files
)

// A Format is one that an --output knows.
type Format struct {
	Name string
	Kind FormatKind
}

// A Request is FORMAT[=FILE]: what is to be written, and where.
type Request struct {
	Format string
	// File is the name of a file, or of a directory if the format is a [Tree]; "-" is
	// standard output.
	File string
	// Named: there was a FILE.
	Named bool
}

// OnStdout tells whether what is written appears on standard output.
func (r Request) OnStdout() bool {
	return slices.Contains([]string{"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}, r.File)
}

// Refuse is the error that this must go elsewhere.
func (r Request) Refuse(why string) error {
	text := r.Format
	if r.Named {
		text += "=" + r.File
	}
	return UsageError(fmt.Errorf("output %q: %s: %s=FILE", text, why, r.Format))
}

// Stdout is standard output, as requests find it.
type Stdout struct {
	W io.Writer
	// Taken tells that something else is on it already.
	Taken bool
	// Program tells that a program that is started writes to it as well.
	Program bool
}

// Check tells what is wrong with one FORMAT[=FILE], wherever standard output leads.
func Check(value string, formats []Format) error {
	_, err := Parse([]string{value}, formats, Stdout{})
	return err
}

// Parse reads the values of --output, each FORMAT[=FILE]: FILE is "-" for standard output,
// as if there were none. It refuses what no place can hold: bytes on a terminal or among
// what a program writes, and two outputs in one place. Errors are of usage.
func Parse(values []string, formats []Format, stdout Stdout) ([]Request, error) {
	var requests []Request
	places := make(map[string]bool)
	for _, value := range values {
		r, kind, err := parse(value, formats)
		if err != nil {
			return nil, UsageError(err)
		}
		if r.OnStdout() {
			if stdout.Taken {
				return nil, UsageError(errors.New("more than one output goes to standard output: give the others a file"))
			}
			stdout.Taken = true
			if why := stdout.refuses(kind); why != "" {
				return nil, r.Refuse(why)
			}
		} else if place := path.Clean(slashed(r.File)); kind != Tree && place != "/dev/null" {
			if places[place] {
				return nil, UsageError(fmt.Errorf("more than one output goes to %s: give each a file", r.File))
			}
			places[place] = true
		}
		requests = append(requests, r)
	}
	return requests, nil
}

func parse(value string, formats []Format) (r Request, kind FormatKind, err error) {
	name, file, given := strings.Cut(value, "=")
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return r, 0, fmt.Errorf("output %q: the formats are %s", value, strings.Join(FormatNames(formats), ", "))
	}
	if !given {
		file = "-"
	}
	r, kind = Request{name, file, given}, formats[i].Kind
	switch {
	case kind == Tree && (file == "" || r.OnStdout()):
		return r, kind, fmt.Errorf("output %q: say where to, as in %s=PATH", value, name)
	case file == "":
		return r, kind, fmt.Errorf("output %q: say where to, as in %s=FILE", value, name)
	}
	return r, kind, nil
}

// Programs is why nothing of ours goes to the standard output of a program that was started.
const Programs = "standard output is the program's"

// refuses says why standard output is no place for a kind, "" if it is one.
func (s Stdout) refuses(kind FormatKind) string {
	switch {
	case kind == Bytes && s.Program:
		return Programs
	case kind == Bytes && s.W != nil && Terminal(s.W) != nil:
		return "it is not for terminals"
	}
	return ""
}

// FormatNames returns the names of formats.
func FormatNames(formats []Format) []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.Name)
	}
	return names
}

// Completions are what a shell may put after --output: a "=" comes where a file has to.
func Completions(formats []Format) []string {
	var texts []string
	for _, f := range formats {
		texts = append(texts, f.Name+map[bool]string{true: "="}[f.Kind != Lines])
	}
	return texts
}
