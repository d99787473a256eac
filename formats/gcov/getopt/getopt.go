// Package getopt takes command lines apart as the C library's getopt_long does, with its
// messages, for the programs that footfall stands in for.
package getopt

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// A Parser takes options off a command line as getopt_long does, for the
// programs beside gcov: one letter or a name, which may be cut short.
type Parser struct {
	Prog     string // in messages
	Short    string // the letters, those with an argument followed by a colon
	Long     []Option
	Stops    bool // the first operand ends the options
	Stderr   io.Writer
	Args     []string // not yet looked at
	Operands []string // complete when Next has returned 0
	bundle   string   // letters left of the current argument
}

// An Option is an option with a name.
type Option struct {
	name   string
	arg    bool
	letter byte
}

// Flag is an option without argument.
func Flag(name string, letter byte) Option { return Option{name: name, letter: letter} }

// Value is an option with an argument.
func Value(name string, letter byte) Option {
	return Option{name: name, arg: true, letter: letter}
}

// Next returns the next option and its argument, '?' after having said what is
// wrong, and 0 at the end.
func (g *Parser) Next() (letter byte, arg string) {
	if g.bundle != "" {
		return g.nextShort()
	}
	for len(g.Args) > 0 {
		a := g.Args[0]
		g.Args = g.Args[1:]
		switch {
		case a == "--":
			g.Operands, g.Args = append(g.Operands, g.Args...), nil
		case strings.HasPrefix(a, "--"):
			return g.nextLong(a[2:])
		case len(a) > 1 && a[0] == '-':
			g.bundle = a[1:]
			return g.nextShort()
		case g.Stops || os.Getenv("POSIXLY_CORRECT") != "":
			g.Operands, g.Args = append(append(g.Operands, a), g.Args...), nil
		default:
			g.Operands = append(g.Operands, a)
		}
	}
	return 0, ""
}

func (g *Parser) complain(format string, args ...any) (byte, string) {
	fmt.Fprintf(g.Stderr, "%s: %s\n", g.Prog, fmt.Sprintf(format, args...))
	return '?', ""
}

func (g *Parser) nextShort() (byte, string) {
	c := g.bundle[0]
	g.bundle = g.bundle[1:]
	i := strings.IndexByte(g.Short, c)
	if i < 0 || c == ':' {
		return g.complain("invalid option -- '%c'", c)
	}
	if !strings.HasPrefix(g.Short[i+1:], ":") {
		return c, ""
	}
	arg := g.bundle
	g.bundle = ""
	if arg == "" {
		if len(g.Args) == 0 {
			return g.complain("option requires an argument -- '%c'", c)
		}
		arg, g.Args = g.Args[0], g.Args[1:]
	}
	return c, arg
}

func (g *Parser) nextLong(arg string) (byte, string) {
	name, value, hasValue := strings.Cut(arg, "=")
	var found []Option
	for _, o := range g.Long {
		if o.name == name {
			found = []Option{o}
			break
		}
		if strings.HasPrefix(o.name, name) {
			found = append(found, o)
		}
	}
	switch {
	case len(found) == 0:
		return g.complain("unrecognized option '--%s'", arg)
	case len(found) > 1:
		msg := fmt.Sprintf("option '--%s' is ambiguous; possibilities:", arg)
		for _, o := range found {
			msg += " '--" + o.name + "'"
		}
		return g.complain("%s", msg)
	}
	o := found[0]
	switch {
	case !o.arg && hasValue:
		return g.complain("option '--%s' doesn't allow an argument", o.name)
	case o.arg && !hasValue && len(g.Args) == 0:
		return g.complain("option '--%s' requires an argument", o.name)
	case o.arg && !hasValue:
		value, g.Args = g.Args[0], g.Args[1:]
	}
	return o.letter, value
}
