package tool

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A usageError is told as LLVM tells those of command lines: after the name of the program.
type usageError string

func (e usageError) Error() string { return string(e) }

// An option is one of those that take a value, or not.
type option struct {
	value func(string) error // nil: there is none
	flag  *bool
	// refused says what an option of LLVM's does that footfall does not have.
	refused string
}

// parse takes options with one or two dashes, values after = or as the next argument, and returns what is left.
func (v *Invocation) parse(args []string, options map[string]option) (rest []string, err error) {
	options[versionOption] = option{value: v.setVersion}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return append(rest, args...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		o, known := options[name]
		switch {
		case !known:
			return nil, usageError(fmt.Sprintf("Unknown command line argument '%s'.  Try: '%s --help'", arg, v.helpName()))
		case o.refused != "":
			return nil, fmt.Errorf("%s: footfall does not know this option, which %s, see docs/llvm.md", arg, o.refused)
		case o.value == nil:
			if err := o.set(name, value, joined); err != nil {
				return nil, err
			}
			continue
		case !joined && len(args) == 0:
			return nil, usageError(fmt.Sprintf("for the %s option: requires a value!", dashed(name)))
		case !joined:
			value, args = args[0], args[1:]
		}
		if err := o.value(value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (o option) set(name, value string, joined bool) error {
	on := true
	if joined {
		switch value {
		case "", "true", "TRUE", "True", "1":
		case "false", "FALSE", "False", "0":
			on = false
		default:
			return usageError(fmt.Sprintf("for the %s option: '%s' is invalid value for boolean argument! Try 0 or 1", dashed(name), value))
		}
	}
	if o.flag != nil {
		*o.flag = on
	}
	return nil
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func text(to *string) option {
	return option{value: func(s string) error { *to = s; return nil }}
}

func list(to *[]string) option {
	return option{value: func(s string) error { *to = append(*to, s); return nil }}
}

// notHere is an option of LLVM's that footfall does not have; what says what it does.
func notHere(what string) option {
	return option{refused: what}
}

func ignored() option { return option{value: func(string) error { return nil }} }

func number(name string, to *uint64) option {
	return option{value: func(s string) (err error) {
		if *to, err = strconv.ParseUint(s, 0, 64); err != nil {
			return usageError(fmt.Sprintf("for the %s option: '%s' value invalid for uint argument!", dashed(name), s))
		}
		return nil
	}}
}

// percent takes a number with a fraction; set is whether it was given.
func percent(name string, to *float64, set *bool) option {
	return option{value: func(s string) (err error) {
		*set = true
		if *to, err = strconv.ParseFloat(s, 64); err != nil {
			return usageError(fmt.Sprintf("for the %s option: '%s' value invalid for floating point argument!", dashed(name), s))
		}
		return nil
	}}
}

// regexps takes POSIX extended regular expressions.
func regexps(to *[]*regexp.Regexp) option {
	return option{value: func(s string) error {
		re, err := regexp.CompilePOSIX(s)
		if err != nil {
			return err
		}
		*to = append(*to, re)
		return nil
	}}
}

// name is that of the program and command, for messages.
func (v *Invocation) name() string { return filepath.Base(v.called()) + v.command }

func (v *Invocation) called() string { return cmp.Or(v.Name, v.program) }

// oneProgram tells whether usage errors name the program without its command: llvm-profdata's since LLVM 17.
func (v *Invocation) oneProgram() bool { return v.program == "llvm-profdata" && v.version() >= 17 }

// usageName is how usage errors begin.
func (v *Invocation) usageName() string {
	if v.oneProgram() {
		return filepath.Base(v.called())
	}
	return v.name()
}

// helpName is the program whose --help usage errors recommend.
func (v *Invocation) helpName() string {
	if v.oneProgram() {
		return v.called()
	}
	return v.name()
}
