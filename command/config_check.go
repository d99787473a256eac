package command

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"footfall/compile/instrument"
	"footfall/fleet/ask"
	"footfall/fleet/client"
	"footfall/output"
	"footfall/profile"
	"footfall/report"
	"footfall/report/exclude"
	"footfall/report/source"
)

// checkOption says what is wrong with one value of an option of a command that
// may not be the one that runs. What goes with what is for the command to say.
func checkOption(command string, f *pflag.Flag, value string) error {
	switch f.Value.Type() {
	case "bool":
		return nil
	case "int", "uint64", "float64", "duration":
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
	case "float64":
		scratch.Float64("x", 0, "")
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
		_, err := source.NewSources(source.Options{Include: []string{v}})
		return err
	},
	"exclude": func(v string) error {
		_, err := source.NewSources(source.Options{Exclude: []string{v}})
		return err
	},
	"path-map": func(v string) error {
		_, err := source.NewSources(source.Options{PathMaps: []string{v}})
		return err
	},
	"exclude-lines":     exclusionCheck(func(o *exclude.Options, v string) { o.Lines = []string{v} }),
	"exclude-branches":  exclusionCheck(func(o *exclude.Options, v string) { o.Branches = []string{v} }),
	"exclude-functions": exclusionCheck(func(o *exclude.Options, v string) { o.Functions = []string{v} }),
	"marker-prefix":     exclusionCheck(func(o *exclude.Options, v string) { o.MarkerPrefixes = []string{v} }),
	"fail-under":        eachPart(func(v string) error { _, err := report.ParseThreshold(v); return err }),
	"fail-over":         eachPart(func(v string) error { _, err := report.ParseLimit(v); return err }),
	"tests-for":         report.CheckTestsFor,
	"sort":              checkOrder,
	"report output":     checkReportOutput,
	"live output":       checkReportOutput,
	"diff output":       func(v string) error { return output.Check(v, report.ComparisonFormats()) },

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

	"store":         func(v string) error { _, err := parseStores(v); return err },
	"server":        func(v string) error { _, err := client.New(v, ""); return err },
	"agent release": func(v string) error { _, err := parseReleases([]string{v}); return err },
	"agent ran":     func(v string) error { _, err := path.Match(v, ""); return err },
	"agent label":   func(v string) error { _, err := parseLabels([]string{v}); return err },
	"every":         func(v string) error { return checkEvery(duration(v)) },
	"spool-limit":   func(v string) error { return checkSpoolLimit(number(v)) },
	"max-sources":   func(v string) error { return checkMaxSources(number(v)) },
	"push label":    func(v string) error { _, err := parseLabels([]string{v}); return err },
	"fleet label":   func(v string) error { return ask.Check("label", v) },
	"in":            func(v string) error { return ask.Check("in", v) },
	"from":          func(v string) error { return ask.Check("from", v) },
	"to":            func(v string) error { return ask.Check("to", v) },
	"fleet days":    func(v string) error { return checkDays(number(v)) },
	"by":            checkBy,
	"fleet output":  checkReportOutput,
	"listen":        func(v string) error { _, _, err := net.SplitHostPort(v); return err },
	"keep-windows":  func(v string) error { _, err := days("keep-windows", v); return err },
	"keep-days":     func(v string) error { _, err := days("keep-days", v); return err },
}

// eachPart checks what stands between commas.
func eachPart(check func(string) error) func(string) error {
	return func(value string) error {
		for _, part := range report.CommaSeparated([]string{value}) {
			if err := check(part); err != nil {
				return err
			}
		}
		return nil
	}
}

func exclusionCheck(set func(*exclude.Options, string)) func(string) error {
	return func(value string) error {
		var o exclude.Options
		set(&o, value)
		_, err := exclude.New(o)
		return err
	}
}

func checkReportOutput(value string) error {
	return output.Check(value, report.Formats())
}

// checkOrder checks an order of files.
func checkOrder(value string) error {
	if !slices.Contains(report.Orders(), value) {
		return fmt.Errorf("no order %q: there are %s", value, strings.Join(report.Orders(), ", "))
	}
	return nil
}

// profileCheck checks the options of a command that is right but for the one.
func profileCheck(set func(*profileOptions, string)) func(string) error {
	return func(value string) error {
		o := &profileOptions{pid: 1}
		o.record.Frequency = profile.MinFrequency
		set(o, value)
		_, _, err := o.check(nil, -1, io.Discard)
		return err
	}
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
