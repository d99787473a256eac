package command

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"footfall/compile"
	"footfall/compile/instrument"
	"footfall/hook/patch"
	"footfall/profile"
	"footfall/record"
	"footfall/report"
	"footfall/trace"
)

// checkOption says what is wrong with one value of an option of a command that
// may not be the one that runs. What goes with what is for the command to say.
func checkOption(command string, f *pflag.Flag, value string) error {
	switch f.Value.Type() {
	case "bool":
		return nil
	case "int", "uint64", "duration":
		if err := checkNumber(f.Value.Type(), value); err != nil {
			return err
		}
	case "string":
		if value == "" && f.DefValue == "" {
			return nil // as if it were not there
		}
	}
	check := optionChecks[command+" "+f.Name]
	if check == nil {
		check = optionChecks[f.Name]
	}
	if check == nil {
		return nil
	}
	return check(value)
}

// checkNumber parses a number as its flag does.
func checkNumber(kind, value string) error {
	scratch := pflag.NewFlagSet("", pflag.ContinueOnError)
	switch kind {
	case "int":
		scratch.Int("x", 0, "")
	case "uint64":
		scratch.Uint64("x", 0, "")
	case "duration":
		scratch.Duration("x", 0, "")
	}
	if scratch.Lookup("x").Value.Set(value) == nil {
		return nil
	}
	if kind == "duration" {
		return fmt.Errorf("%q is no time: one is like 1s or 250ms", value)
	}
	return fmt.Errorf("%q is no number that fits", value)
}

// optionChecks are the checks of values by the name of the option, and of the
// command where it is another's as well. For options that are not here any text
// or number will do.
var optionChecks = map[string]func(value string) error{
	"max-input": func(value string) error { _, err := parseMaxInput(value); return err },
	"include": func(v string) error {
		_, err := report.NewSources(report.SourceOptions{Include: []string{v}})
		return err
	},
	"exclude": func(v string) error {
		_, err := report.NewSources(report.SourceOptions{Exclude: []string{v}})
		return err
	},
	"path-map": func(v string) error {
		_, err := report.NewSources(report.SourceOptions{PathMaps: []string{v}})
		return err
	},
	"exclude-lines":     exclusionCheck(func(o *report.ExcludeOptions, v string) { o.Lines = []string{v} }),
	"exclude-branches":  exclusionCheck(func(o *report.ExcludeOptions, v string) { o.Branches = []string{v} }),
	"exclude-functions": exclusionCheck(func(o *report.ExcludeOptions, v string) { o.Functions = []string{v} }),
	"marker-prefix":     exclusionCheck(func(o *report.ExcludeOptions, v string) { o.MarkerPrefixes = []string{v} }),
	"fail-under":        eachPart(func(v string) error { _, err := report.ParseThreshold(v); return err }),
	"fail-over":         eachPart(func(v string) error { _, err := report.ParseLimit(v); return err }),
	"tests-for":         report.CheckTestsFor,
	"report output":     checkReportOutput,
	"live output":       checkReportOutput,
	"diff output":       func(v string) error { _, err := report.ParseComparisonOutput(v); return err },

	"live watch": func(v string) error { return (&liveOptions{watch: v}).check([]string{"any"}) },
	"live reset": func(v string) error { return (&liveOptions{reset: v}).check([]string{"any"}) },

	"cc for": eachPart(func(v string) error { return (&compile.Options{Purposes: []string{v}}).Check() }),
	"update": func(v string) error { _, err := instrument.ParseUpdate(v); return err },
	"only":   func(v string) error { return (&choice{only: []string{v}}).check() },
	"not":    func(v string) error { return (&choice{not: []string{v}}).check() },
	"instrument cpu": func(v string) error {
		if known := []string{"amd64", "386", "arm64"}; !slices.Contains(known, v) {
			return fmt.Errorf("%q is none of %s", v, strings.Join(known, ", "))
		}
		return nil
	},

	"profile output":    profileCheck(func(o *profileOptions, v string) { o.outputs = []string{v} }),
	"profile function":  profileCheck(func(o *profileOptions, v string) { o.functions = []string{v} }),
	"profile duration":  profileCheck(func(o *profileOptions, v string) { o.duration = duration(v) }),
	"profile frequency": profileCheck(func(o *profileOptions, v string) { o.record.Frequency = number(v) }),
	"profile top":       profileCheck(func(o *profileOptions, v string) { o.top = number(v) }),
	"profile pid":       profileCheck(func(o *profileOptions, v string) { o.pid = cmp.Or(number(v), 1) }), // 0: none

	"trace function":     checkPattern,
	"trace notrace":      checkPattern,
	"trace graph-from":   checkPattern,
	"trace args":         func(v string) error { return record.CheckArguments(v) },
	"trace way":          record.CheckWay,
	"trace thread":       func(v string) error { _, err := path.Match(v, ""); return err },
	"trace output":       checkTraceOutput,
	"trace buffer":       traceCheck(func(o *record.Options, v string) { o.Buffer = number(v) }),
	"trace depth":        traceCheck(func(o *record.Options, v string) { o.Depth = number(v) }),
	"trace duration":     traceCheck(func(o *record.Options, v string) { o.Duration = duration(v) }),
	"trace min-duration": traceCheck(func(o *record.Options, v string) { o.MinDuration = duration(v) }),
	"trace sample":       traceCheck(func(o *record.Options, v string) { o.Sample = v }),

	"callers output":   callersCheck(func(o *record.CallersOptions, v string) { o.Outputs = []string{v} }),
	"callers buffer":   callersCheck(func(o *record.CallersOptions, v string) { o.Buffer = number(v) }),
	"callers depth":    callersCheck(func(o *record.CallersOptions, v string) { o.Depth = number(v) }),
	"callers duration": callersCheck(func(o *record.CallersOptions, v string) { o.Duration = duration(v) }),
}

// eachPart checks what stands between commas.
func eachPart(check func(string) error) func(string) error {
	return func(value string) error {
		for part := range strings.SplitSeq(value, ",") {
			if err := check(part); err != nil {
				return err
			}
		}
		return nil
	}
}

func exclusionCheck(set func(*report.ExcludeOptions, string)) func(string) error {
	return func(value string) error {
		var o report.ExcludeOptions
		set(&o, value)
		_, err := report.NewExclusions(o)
		return err
	}
}

func checkReportOutput(value string) error {
	_, err := report.ParseOutput(value)
	return err
}

// profileCheck checks the options of a command that is right but for the one.
func profileCheck(set func(*profileOptions, string)) func(string) error {
	return func(value string) error {
		o := &profileOptions{pid: 1}
		o.record.Frequency = profile.MinFrequency
		set(o, value)
		_, _, err := o.check(nil, -1)
		return err
	}
}

func traceCheck(set func(*record.Options, string)) func(string) error {
	return func(value string) error {
		o := &record.Options{Buffer: 1}
		set(o, value)
		return o.Check()
	}
}

func callersCheck(set func(*record.CallersOptions, string)) func(string) error {
	return func(value string) error {
		o := &record.CallersOptions{Depth: 1, Buffer: 1}
		set(o, value)
		return o.Check()
	}
}

func checkPattern(value string) error {
	_, err := patch.ParsePattern(value)
	return err
}

func checkTraceOutput(value string) error {
	format, _, _ := strings.Cut(value, "=")
	if format == "raw" || format == "html" || format == "counts" { // not made by package trace
		return nil
	}
	_, err := trace.NewOutput(format, io.Discard, new(trace.Header))
	return err
}

// number and duration parse what was checked before.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}
