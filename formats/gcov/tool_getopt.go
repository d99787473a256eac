package gcov

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// A getopt takes options off a command line as getopt_long does, for the
// programs beside gcov: one letter or a name, which may be cut short.
type getopt struct {
	prog     string // in messages
	short    string // the letters, those with an argument followed by a colon
	long     []longOption
	stops    bool // the first operand ends the options
	stderr   io.Writer
	args     []string // not yet looked at
	operands []string // complete when next has returned 0
	bundle   string   // letters left of the current argument
}

type longOption struct {
	name   string
	arg    bool
	letter byte
}

// next returns the next option and its argument, '?' after having said what is
// wrong, and 0 at the end.
func (g *getopt) next() (letter byte, arg string) {
	if g.bundle != "" {
		return g.nextShort()
	}
	for len(g.args) > 0 {
		a := g.args[0]
		g.args = g.args[1:]
		switch {
		case a == "--":
			g.operands, g.args = append(g.operands, g.args...), nil
		case strings.HasPrefix(a, "--"):
			return g.nextLong(a[2:])
		case len(a) > 1 && a[0] == '-':
			g.bundle = a[1:]
			return g.nextShort()
		case g.stops || os.Getenv("POSIXLY_CORRECT") != "":
			g.operands, g.args = append(append(g.operands, a), g.args...), nil
		default:
			g.operands = append(g.operands, a)
		}
	}
	return 0, ""
}

func (g *getopt) complain(format string, args ...any) (byte, string) {
	fmt.Fprintf(g.stderr, "%s: %s\n", g.prog, fmt.Sprintf(format, args...))
	return '?', ""
}

func (g *getopt) nextShort() (byte, string) {
	c := g.bundle[0]
	g.bundle = g.bundle[1:]
	i := strings.IndexByte(g.short, c)
	if i < 0 || c == ':' {
		return g.complain("invalid option -- '%c'", c)
	}
	if !strings.HasPrefix(g.short[i+1:], ":") {
		return c, ""
	}
	arg := g.bundle
	g.bundle = ""
	if arg == "" {
		if len(g.args) == 0 {
			return g.complain("option requires an argument -- '%c'", c)
		}
		arg, g.args = g.args[0], g.args[1:]
	}
	return c, arg
}

func (g *getopt) nextLong(arg string) (byte, string) {
	name, value, hasValue := strings.Cut(arg, "=")
	var found []longOption
	for _, o := range g.long {
		if o.name == name {
			found = []longOption{o}
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
	case o.arg && !hasValue && len(g.args) == 0:
		return g.complain("option '--%s' requires an argument", o.name)
	case o.arg && !hasValue:
		value, g.args = g.args[0], g.args[1:]
	}
	return o.letter, value
}
