package record

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"footfall/exe"
	"footfall/hook/patch"
	"footfall/proc"
	"footfall/trace"
)

// argumentsOf are those of the functions that fit a pattern: --args.
type argumentsOf struct {
	text     string
	pattern  patch.Pattern
	explicit []argument // none: as the debug information has them
}

// An argument is one that --args names.
type argument struct {
	patch.Argument
	name   string
	format string // "": as the debug information has it
}

var argumentText = regexp.MustCompile(`^(f?)arg(\d{1,2})(?:/([dux](?:8|16|32|64)?|f(?:32|64)|[scp]))?$`)

// argumentStart tells arguments from the name of a function.
var argumentStart = regexp.MustCompile(`^f?arg\d+(?:[/,]|$)`)

// parseArguments reads FUNCTION or FUNCTION:arg1/s,arg2/x.
func parseArguments(text string) (a argumentsOf, err error) {
	a.text = text
	pattern := text
	if i := strings.LastIndexByte(text, ':'); i > 0 && argumentStart.MatchString(text[i+1:]) {
		pattern = text[:i]
		for part := range strings.SplitSeq(text[i+1:], ",") {
			one, err := parseArgument(part)
			if err != nil {
				return a, fmt.Errorf("--args %s: %w", text, err)
			}
			a.explicit = append(a.explicit, one)
		}
		var all []patch.Argument
		for _, one := range a.explicit {
			all = append(all, one.Argument)
		}
		if err := patch.CheckArguments(all); err != nil {
			return a, fmt.Errorf("--args %s: %w", text, err)
		}
	}
	a.pattern, err = patch.ParsePattern(pattern)
	return a, err
}

func parseArgument(text string) (argument, error) {
	m := argumentText.FindStringSubmatch(text)
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
		return argument{patch.Argument{Kind: patch.Float, Index: n - 1}, text[:strings.IndexByte(text+"/", '/')], format}, nil
	}
	kind := patch.Value
	switch {
	case format == "s":
		kind = patch.String
	case format == "d":
		format = "d32" // an int, which leaves the other half of a register as it is
	case strings.HasPrefix(format, "f"):
		return argument{}, fmt.Errorf("%q: arguments in floating point are farg1, farg2", text)
	}
	return argument{patch.Argument{Kind: kind, Index: n - 1}, "arg" + m[2], format}, nil
}

// describe gives a site the arguments that are to be recorded, and returns what
// they are called. declared are the parameters in the debug information, as far
// as err does not say otherwise; the error says what is not known.
func (a *argumentsOf) describe(site *patch.Site, declared []exe.Parameter, err error) ([]trace.Argument, error) {
	if a.explicit == nil {
		return a.asDeclared(site, declared, err)
	}
	var names []trace.Argument
	for _, one := range a.explicit {
		t := trace.Argument{Name: one.name, Format: one.format}
		i := slices.IndexFunc(declared, func(d exe.Parameter) bool {
			return d.Index == one.Index && (d.Kind == exe.FloatingPoint) == (one.Kind == patch.Float)
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
		site.Arguments = append(site.Arguments, one.Argument)
		names = append(names, t)
	}
	return names, nil
}

// asDeclared takes all parameters, or as many as there is room for.
func (a *argumentsOf) asDeclared(site *patch.Site, declared []exe.Parameter, err error) ([]trace.Argument, error) {
	var names []trace.Argument
	for _, d := range declared {
		kind, t := formatOf(d)
		more := append(slices.Clone(site.Arguments), patch.Argument{Kind: kind, Index: d.Index})
		if patch.CheckArguments(more) != nil {
			err = errors.Join(err, fmt.Errorf("parameter %s: there is no room for it", d.Name))
			break
		}
		site.Arguments = more
		names = append(names, t)
	}
	return names, err
}

func bitsOf(p exe.Parameter) int {
	switch p.Kind {
	case exe.Pointer, exe.Text:
		return 64
	case exe.Character, exe.Boolean:
		return 8
	}
	return p.Bits
}

// formatOf says how a parameter is shown.
func formatOf(p exe.Parameter) (patch.ArgumentKind, trace.Argument) {
	bits := strconv.Itoa(p.Bits)
	kind, format := patch.Value, ""
	switch p.Kind {
	case exe.Integer:
		format = "d" + bits
	case exe.Unsigned:
		format = "u" + bits
	case exe.Character:
		format = "c"
	case exe.Boolean:
		format = "b"
	case exe.Enum:
		format = "e" + bits
	case exe.FloatingPoint:
		kind, format = patch.Float, "f"+bits
	case exe.Text:
		kind, format = patch.String, "s"
	default:
		format = "p"
	}
	return kind, trace.Argument{Name: p.Name, Format: format, Values: p.Values}
}

// changed knows the names of functions of which the compiler has made others:
// f.isra.0 and so on have fewer parameters than the source says.
var changed = regexp.MustCompile(`\.(constprop|isra|part|cold|llvm)\b`)

// describe gives a site the arguments that are to be recorded, and returns what they
// are called, and whether there are to be any. What is not known of them it says.
func (s *selection) describe(p *proc.Process, site *patch.Site, stderr io.Writer) (names []trace.Argument, chosen bool) {
	for i := range s.arguments {
		a := &s.arguments[i]
		if !a.pattern.Matches(p, site) {
			continue
		}
		declared, err := site.Parameters(p)
		if changed.MatchString(site.Function.Name) {
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
