//go:build linux

package record

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"footfall/binary"
	"footfall/hook/patch"
	"footfall/process/target"
	"footfall/trace"
)

// argumentsOf are those of the functions that fit a pattern: --args.
type argumentsOf struct {
	text     string
	pattern  target.Pattern
	explicit []argument // none: as the debug information has them
}

// An argument is one that --args names.
type argument struct {
	trace.Capture
	name   string
	format string // "": as the debug information has it
}

var argumentText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(f?)arg(\d{1,2})(?:/([dux](?:8|16|32|64)?|f(?:32|64)|[scp]))?$`)
})

// argumentStart tells arguments from the name of a function.
var argumentStart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^f?arg\d+(?:[/,]|$)`) })

// parseArguments reads FUNCTION or FUNCTION:arg1/s,arg2/x.
func parseArguments(text string) (a argumentsOf, err error) {
	a.text = text
	pattern := text
	if i := strings.LastIndexByte(text, ':'); i > 0 && argumentStart().MatchString(text[i+1:]) {
		pattern = text[:i]
		for part := range strings.SplitSeq(text[i+1:], ",") {
			one, err := parseArgument(part)
			if err != nil {
				return a, fmt.Errorf("--args %s: %w", text, err)
			}
			a.explicit = append(a.explicit, one)
		}
		var all []trace.Capture
		for _, one := range a.explicit {
			all = append(all, one.Capture)
		}
		if err := patch.CheckArguments(all); err != nil {
			return a, fmt.Errorf("--args %s: %w", text, err)
		}
	}
	a.pattern, err = target.ParsePattern(pattern)
	return a, err
}

func parseArgument(text string) (argument, error) {
	m := argumentText().FindStringSubmatch(text)
	if m == nil {
		return argument{}, fmt.Errorf("%q is no argument: write arg1/d, or /u /x /p /c /s, or farg1/f64", text)
	}
	n, _ := strconv.Atoi(m[2])
	if n == 0 {
		return argument{}, fmt.Errorf("%q: arguments count from 1", text)
	}
	format := m[3]
	if m[1] != "" {
		if format == "" {
			format = "f64"
		}
		if format[0] != 'f' {
			return argument{}, fmt.Errorf("%q: the format of farg is f32 or f64", text)
		}
		return argument{trace.Capture{Kind: trace.CaptureFloat, Index: n - 1}, text[:strings.IndexByte(text+"/", '/')], format}, nil
	}
	kind := trace.CaptureWord
	switch {
	case format == "s":
		kind = trace.CaptureString
	case format == "d":
		format = "d32" // an int, which leaves the other half of a register as it is
	case strings.HasPrefix(format, "f"):
		return argument{}, fmt.Errorf("%q: arguments in floating point are farg1, farg2", text)
	}
	return argument{trace.Capture{Kind: kind, Index: n - 1}, "arg" + m[2], format}, nil
}

// describe gives a site the arguments that are to be recorded, and returns what
// they are called. declared are the parameters in the debug information, as far
// as err does not say otherwise; the error says what is not known.
func (a *argumentsOf) describe(site *patch.EntrySite, declared []binary.Parameter, err error) ([]trace.Argument, error) {
	if a.explicit == nil {
		return a.asDeclared(site, declared, err)
	}
	var names []trace.Argument
	for _, one := range a.explicit {
		t := trace.Argument{Name: one.name, Format: one.format}
		i := slices.IndexFunc(declared, func(d binary.Parameter) bool {
			return d.Index == one.Index && (d.Kind == binary.FloatingPoint) == (one.Kind == trace.CaptureFloat)
		})
		if i >= 0 {
			t.Name = declared[i].Name
			kind, known := formatOf(declared[i])
			switch {
			case one.format == "":
				one.Kind, t = kind, known
			case strings.Contains("dux", one.format) || one.format == "d32":
				t.Format = one.format[:1] + strconv.Itoa(max(8, bitsOf(declared[i])))
			}
		}
		if t.Format == "" {
			t.Format = "x"
		}
		site.Arguments = append(site.Arguments, one.Capture)
		names = append(names, t)
	}
	return names, nil
}

// asDeclared takes all parameters, or as many as there is room for.
func (a *argumentsOf) asDeclared(site *patch.EntrySite, declared []binary.Parameter, err error) ([]trace.Argument, error) {
	var names []trace.Argument
	for _, d := range declared {
		kind, t := formatOf(d)
		more := append(slices.Clone(site.Arguments), trace.Capture{Kind: kind, Index: d.Index})
		if patch.CheckArguments(more) != nil {
			err = errors.Join(err, fmt.Errorf("parameter %s: there is no room for it", d.Name))
			break
		}
		site.Arguments = more
		names = append(names, t)
	}
	return names, err
}

func bitsOf(p binary.Parameter) int {
	switch p.Kind {
	case binary.Pointer, binary.Text:
		return 64
	case binary.Character, binary.Boolean:
		return 8
	}
	return p.Bits
}

// formatOf says how a parameter is shown.
func formatOf(p binary.Parameter) (trace.CaptureKind, trace.Argument) {
	bits := strconv.Itoa(p.Bits)
	kind, format := trace.CaptureWord, ""
	switch p.Kind {
	case binary.Integer:
		format = "d" + bits
	case binary.Unsigned:
		format = "u" + bits
	case binary.Character:
		format = "c"
	case binary.Boolean:
		format = "b"
	case binary.Enum:
		format = "e" + bits
	case binary.FloatingPoint:
		kind, format = trace.CaptureFloat, "f"+bits
	case binary.Text:
		kind, format = trace.CaptureString, "s"
	default:
		format = "p"
	}
	return kind, trace.Argument{Name: p.Name, Format: format, Values: p.Values}
}

// changed knows the names of functions of which the compiler has made others:
// f.isra.0 and so on have fewer parameters than the source says.
var changed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.(constprop|isra|part|cold|llvm)\b`) })

// describe gives a site the arguments that are to be recorded, and returns what they
// are called, and whether there are to be any. What is not known of them it says.
func (s *selection) describe(site *patch.EntrySite, stderr io.Writer) (names []trace.Argument, chosen bool) {
	for i := range s.arguments {
		a := &s.arguments[i]
		if !a.pattern.Matches(&site.Entry) {
			continue
		}
		declared, err := site.Parameters()
		if changed().MatchString(site.Function.Name) {
			declared, err = nil, errors.New("the compiler has changed its parameters")
		}
		site.Arguments = nil
		names, err := a.describe(site, declared, err)
		if err != nil {
			fmt.Fprintf(stderr, "footfall: not all arguments of %s are shown: %v; name them: --args '%s:arg1/d,arg2/s'\n", site.Name(), err, a.text)
		}
		return names, true
	}
	return nil, false
}
