package command

import (
	"footfall/compile"
	"footfall/output"
	"footfall/process/target"
	"footfall/record"
	"maps"
	"path"
)

// init adds the checks of commands that need Linux.
func init() {
	maps.Copy(optionChecks, map[string]func(value string) error{
		"live watch":         func(v string) error { return (&liveOptions{watch: v}).check([]string{"any"}) },
		"live ran":           checkRanKind,
		"live duration":      func(v string) error { return checkRanDuration(duration(v)) },
		"live serve":         func(v string) error { _, _, err := servePlace(v); return err },
		"live reset":         func(v string) error { return (&liveOptions{reset: v}).check([]string{"any"}) },
		"cc for":             eachPart(func(v string) error { return (&compile.Options{Purposes: []string{v}}).Check() }),
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
		"callers output":     callersCheck(func(o *record.CallersOptions, v string) { o.Outputs = []string{v} }),
		"callers buffer":     callersCheck(func(o *record.CallersOptions, v string) { o.Buffer = number(v) }),
		"callers way":        record.CheckWay,
		"callers depth":      callersCheck(func(o *record.CallersOptions, v string) { o.Depth = number(v) }),
		"callers duration":   callersCheck(func(o *record.CallersOptions, v string) { o.Duration = duration(v) }),
	})
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
	_, err := target.ParsePattern(value)
	return err
}

func checkTraceOutput(value string) error {
	if output.Check(value, record.CountFormats()) == nil {
		return nil
	}
	return output.Check(value, record.Formats())
}
