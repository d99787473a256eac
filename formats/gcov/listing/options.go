package listing

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"footfall/formats/gcov"
	"footfall/input"
)

// An option is one that some version of gcov knows.
type option struct {
	short byte   // 0: has only the long form
	long  string // "": has only the short form
	arg   argument
	from  int // the first version times ten, 0: all
	until int // the last version, 0: to this day
	help  string
	apply func(o *options, arg string) error
}

type argument int

const (
	noArgument argument = iota
	needsArgument
	mayHaveArgument
)

// optionTable has the options in the order of gcov's own table, which shows in
// the message about an ambiguous one.
var optionTable = []option{
	{short: 'h', long: "help", help: "print this help"},
	{short: 'v', long: "version", help: "print the version"},
	{short: 'w', long: "verbose", from: 80, help: "add block numbers to blocks and branches", apply: flag(func(o *options) { o.verbose = true })},
	{short: 'a', long: "all-blocks", help: "list every basic block", apply: flag(func(o *options) { o.allBlocks = true })},
	{short: 'b', long: "branch-probabilities", help: "list branches, calls and functions", apply: flag(func(o *options) { o.branches = true })},
	{short: 'c', long: "branch-counts", help: "with -b: counts in place of percentages", apply: flag(func(o *options) { o.counts = true })},
	{short: 'g', long: "conditions", from: 140, help: "list conditions (masking MC/DC)", apply: flag(func(o *options) { o.conditions = true })},
	{short: 'e', long: "prime-paths", from: 150, help: "tell how many prime paths are covered", apply: flag(func(o *options) { o.paths = true })},
	{long: "prime-paths-lines", arg: mayHaveArgument, from: 150, help: "list paths by line: covered, uncovered, both", apply: func(o *options, arg string) error {
		return o.choosePaths(&o.pathLines, "--prime-paths-lines", arg)
	}},
	{long: "prime-paths-source", arg: mayHaveArgument, from: 150, help: "list paths with their source: same choice", apply: func(o *options, arg string) error {
		return o.choosePaths(&o.pathSource, "--prime-paths-source", arg)
	}},
	{short: 'j', long: "json-format", from: 110, help: "write JSON", apply: flag(setJSON)},
	{short: 'i', long: "json-format", from: 90, until: 109, help: "write JSON", apply: flag(setJSON)},
	{short: 'i', long: "intermediate-format", from: 49, until: 89, help: "write text for programs", apply: flag(setJSON)},
	{short: 'i', from: 110, apply: flag(setJSON)},
	{long: "include", arg: needsArgument, from: 150, help: "show functions that match this regular expression", apply: func(o *options, arg string) error {
		o.drop = true
		return o.filter(arg, true)
	}},
	{long: "exclude", arg: needsArgument, from: 150, help: "hide functions that match this regular expression", apply: func(o *options, arg string) error {
		return o.filter(arg, false)
	}},
	{short: 'H', long: "human-readable", from: 110, help: "round large counts: 1.2k", apply: flag(func(o *options) { o.human = true })},
	{short: 'j', long: "human-readable", from: 80, until: 109, help: "round large counts: 1.2k", apply: flag(func(o *options) { o.human = true })},
	{short: 'n', long: "no-output", help: "write no files", apply: flag(func(o *options) { o.write = false })},
	{short: 'l', long: "long-file-names", help: "name listings of headers after the operand too", apply: flag(func(o *options) { o.long = true })},
	{short: 'f', long: "function-summaries", help: "sum up each function", apply: flag(func(o *options) { o.sums = true })},
	{short: 'm', long: "demangled-names", from: 49, help: "demangle names of functions", apply: flag(func(o *options) { o.demangle = true })},
	{short: 'M', long: "filter-on-demangled", from: 150, help: "let --include and --exclude match demangled names", apply: flag(func(o *options) { o.filterDemangled = true })},
	{short: 'p', long: "preserve-paths", help: "keep directories in names of listings", apply: flag(func(o *options) { o.preserve = true })},
	{short: 'r', long: "relative-only", from: 46, help: "skip sources with an absolute name", apply: flag(func(o *options) { o.relative = true })},
	{short: 'o', long: "object-directory", arg: needsArgument, help: "find notes and data in DIR or as FILE", apply: setObject},
	{short: 'o', long: "object-file", arg: needsArgument, apply: setObject},
	{short: 's', long: "source-prefix", arg: needsArgument, from: 46, help: "take DIR off the front of names", apply: func(o *options, arg string) error {
		o.prefix = arg
		return nil
	}},
	{short: 't', long: "stdout", from: 90, help: "write to standard output", apply: flag(func(o *options) { o.toStdout = true })},
	{short: 'u', long: "unconditional-branches", help: "list unconditional branches too", apply: flag(func(o *options) { o.unconditional = true })},
	{short: 'd', long: "display-progress", from: 46, help: "tell which operand is read", apply: flag(func(o *options) { o.progress = true })},
	{short: 'x', long: "hash-filenames", from: 70, help: "add a hash of the path to names of listings", apply: flag(func(o *options) { o.hash = true })},
	{short: 'k', long: "use-colors", from: 80, help: "colour counts", apply: flag(func(o *options) { o.colors = true })},
	{short: 'q', long: "use-hotness-colors", from: 90, help: "colour the numbers of hot lines", apply: flag(func(o *options) { o.hotness = true })},
	{short: 'D', long: "debug", from: 110, help: "dump sources, functions and blocks", apply: flag(func(o *options) { o.debug = true })},
}

// options are what the command line asks for.
type options struct {
	allBlocks, branches, counts, unconditional, verbose bool
	conditions, paths, sums, demangle                   bool
	json, write, toStdout                               bool // json: the text for programs before GCC 9
	long, preserve, hash, relative                      bool
	human, colors, hotness, progress, debug             bool
	pathLines, pathSource                               pathChoice
	object, prefix                                      string
	filters                                             []nameFilter
	filterDemangled                                     bool
	drop                                                bool // functions that no filter matches

	owners *input.Owners // of notes and data
}

// A pathChoice tells which prime paths are listed.
type pathChoice struct{ covered, uncovered bool }

// A nameFilter keeps or drops the functions that it matches.
type nameFilter struct {
	match *regexp.Regexp
	keep  bool
}

func flag(set func(o *options)) func(*options, string) error {
	return func(o *options, _ string) error { set(o); return nil }
}

func setJSON(o *options) { o.json, o.write = true, true }

func setObject(o *options, arg string) error {
	o.object = arg
	return nil
}

func (o *options) choosePaths(c *pathChoice, name, arg string) error {
	o.paths = true
	switch arg {
	case "covered":
		c.covered = true
	case "", "uncovered":
		c.uncovered = true
	case "both":
		c.covered, c.uncovered = true, true
	default:
		return fmt.Errorf("invalid argument '%s' for '%s'. Valid arguments are: 'covered', 'uncovered', 'both'", arg, name)
	}
	return nil
}

// filter adds a POSIX extended regular expression.
func (o *options) filter(expr string, keep bool) error {
	re, err := regexp.CompilePOSIX(expr)
	if err != nil {
		return complaint("Bad regular expression: " + posixError(err))
	}
	if i := strings.LastIndexByte(expr, '{'); i >= 0 && !strings.Contains(expr[i:], "}") && !strings.HasSuffix(expr[:i], `\`) {
		return complaint(`Bad regular expression: Unmatched \{`)
	}
	o.filters = append(o.filters, nameFilter{re, keep})
	return nil
}

// A complaint is an error in gcov's words.
type complaint string

func (c complaint) Error() string { return string(c) }

// posixError says what is wrong with an expression as the C library does.
func posixError(err error) string {
	e, ok := err.(*syntax.Error)
	if !ok {
		return err.Error()
	}
	switch e.Code {
	case syntax.ErrMissingParen:
		return `Unmatched ( or \(`
	case syntax.ErrUnexpectedParen:
		return `Unmatched ) or \)`
	case syntax.ErrMissingBracket:
		return "Unmatched [ or [^"
	case syntax.ErrInvalidCharRange:
		if strings.HasPrefix(e.Expr, "[:") {
			return "Invalid character class name"
		}
		return "Invalid range end"
	case syntax.ErrTrailingBackslash:
		return "Trailing backslash"
	case syntax.ErrMissingRepeatArgument:
		return "Invalid preceding regular expression"
	case syntax.ErrInvalidRepeatSize:
		return "Regular expression too big"
	case syntax.ErrInvalidRepeatOp:
		return `Invalid content of \{\}`
	}
	return e.Code.String()
}

// keeps tells whether the filters let a function through: the last match
// decides.
func (o *options) keeps(filters []nameFilter, name string) bool {
	keep := !o.drop
	for _, f := range filters {
		if f.match.MatchString(name) {
			keep = f.keep
		}
	}
	return keep
}

// known tells whether gcov of version v has the option. Without a version all
// but those that have since changed are known.
func (opt *option) known(v gcov.Version) bool {
	n := v.Number()
	if n == 0 {
		return opt.until == 0
	}
	return n >= opt.from && (opt.until == 0 || n <= opt.until)
}

// A usageProblem ends gcov before it starts.
type usageProblem struct {
	msg   string // "": print only the usage, or the version
	usage bool
	stop  byte // 'h' or 'v': not a problem at all
}

// parseOptions takes the options out of args, as getopt_long does, and returns
// the operands. prog is the program's name in messages.
func parseOptions(prog string, args []string, v gcov.Version) (*options, []string, *usageProblem) {
	p := &optionParser{prog: prog, version: v, opt: &options{write: true}}
	var operands []string
	strict := os.Getenv("POSIXLY_CORRECT") != ""
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		p.rest = args
		var stop *usageProblem
		switch {
		case arg == "--":
			return p.opt, append(operands, args...), nil
		case strings.HasPrefix(arg, "--"):
			stop = p.parseLong(arg[2:])
		case len(arg) > 1 && arg[0] == '-':
			stop = p.parseShort(arg[1:])
		case strict:
			return p.opt, append(append(operands, arg), args...), nil
		default:
			operands = append(operands, arg)
		}
		if stop != nil {
			return nil, nil, stop
		}
		args = p.rest
	}
	return p.opt, operands, nil
}

type optionParser struct {
	prog    string
	version gcov.Version
	opt     *options
	rest    []string // the arguments not yet looked at
}

func (p *optionParser) usage(format string, args ...any) *usageProblem {
	return &usageProblem{msg: p.prog + ": " + fmt.Sprintf(format, args...), usage: true}
}

func (p *optionParser) apply(opt *option, arg string) *usageProblem {
	if opt.apply == nil {
		return &usageProblem{stop: opt.short}
	}
	if err := opt.apply(p.opt, arg); err != nil {
		return &usageProblem{msg: err.Error()}
	}
	return nil
}

func (p *optionParser) parseLong(arg string) *usageProblem {
	name, value, hasValue := strings.Cut(arg, "=")
	opt, problem := p.findLong(name, arg)
	if problem != nil {
		return problem
	}
	switch {
	case opt.arg == noArgument && hasValue:
		return p.usage("option '--%s' doesn't allow an argument", opt.long)
	case opt.arg == needsArgument && !hasValue:
		if len(p.rest) == 0 {
			return p.usage("option '--%s' requires an argument", opt.long)
		}
		value, p.rest = p.rest[0], p.rest[1:]
	case opt.arg == mayHaveArgument && hasValue && value == "":
		// Not the same as no argument at all.
		return &usageProblem{msg: fmt.Sprintf("invalid argument '' for '--%s'. Valid arguments are: 'covered', 'uncovered', 'both'", opt.long)}
	}
	return p.apply(opt, value)
}

// findLong finds the option by its name or by the beginning of it, if that is
// no other option's beginning.
func (p *optionParser) findLong(name, arg string) (*option, *usageProblem) {
	var found []*option
	for i := range optionTable {
		opt := &optionTable[i]
		if opt.long == "" || !opt.known(p.version) || !strings.HasPrefix(opt.long, name) {
			continue
		}
		if opt.long == name {
			return opt, nil
		}
		found = append(found, opt)
	}
	if len(found) == 0 {
		return nil, p.usage("unrecognized option '--%s'", arg)
	}
	same := func(o *option) bool { return o.short != 0 && o.short == found[0].short && o.arg == found[0].arg }
	if len(found) == 1 || !slices.ContainsFunc(found, func(o *option) bool { return !same(o) }) {
		return found[0], nil
	}
	msg := fmt.Sprintf("option '--%s' is ambiguous; possibilities:", arg)
	for _, o := range found {
		msg += " '--" + o.long + "'"
	}
	return nil, p.usage("%s", msg)
}

// parseShort takes bundled options.
func (p *optionParser) parseShort(arg string) *usageProblem {
	for len(arg) > 0 {
		c := arg[0]
		arg = arg[1:]
		i := slices.IndexFunc(optionTable, func(o option) bool { return o.short == c && o.known(p.version) })
		if i < 0 {
			return p.usage("invalid option -- '%c'", c)
		}
		opt, value := &optionTable[i], ""
		if opt.arg == needsArgument {
			switch {
			case arg != "":
				value, arg = arg, ""
			case len(p.rest) == 0:
				return p.usage("option requires an argument -- '%c'", c)
			default:
				value, p.rest = p.rest[0], p.rest[1:]
			}
		}
		if stop := p.apply(opt, value); stop != nil {
			return stop
		}
	}
	return nil
}

// printUsage prints the options of gcov of version v, one a line, which is
// where other programs look for them.
func printUsage(w io.Writer, v gcov.Version) {
	io.WriteString(w, "Usage: gcov [OPTION...] SOURCE|OBJ...\n\nPrint code coverage information.\n\n")
	io.WriteString(w, optionHelp(v))
	if v.AtLeast(110) {
		io.WriteString(w, "\nObsolete options:\n"+
			"  -i, --json-format               replaced with -j, --json-format\n"+
			"  -j, --human-readable            replaced with -H, --human-readable\n")
	}
	io.WriteString(w, "\nThis is footfall's gcov.\n")
}

// OptionHelp describes the options of the newest gcov, one a line.
func OptionHelp() string { return optionHelp(0) }

func optionHelp(v gcov.Version) string {
	var b strings.Builder
	inOrder := slices.Clone(optionTable)
	slices.SortStableFunc(inOrder, func(a, b option) int { return strings.Compare(a.place(), b.place()) })
	for _, opt := range inOrder {
		if opt.help == "" || !opt.known(v) {
			continue
		}
		name := "      --" + opt.long
		if opt.short != 0 {
			name = "  -" + string(opt.short) + ", --" + opt.long
		}
		switch {
		case opt.arg == mayHaveArgument:
			name += "[=TYPE]"
		case opt.short == 'o':
			name += " DIR|FILE"
		case opt.short == 's':
			name += " DIR"
		}
		fmt.Fprintf(&b, "%-33s %s\n", name, opt.help)
	}
	return b.String()
}

// place is where the option stands in the help: by letter, those of conditions
// and paths behind the branches, and filters before -h.
func (o *option) place() string {
	switch {
	case o.short == 'g' || o.short == 'e':
		return "c" + string('z'-o.short+'a')
	case strings.HasPrefix(o.long, "prime-paths-"):
		return "cz" + o.long
	case o.long == "include" || o.long == "exclude":
		return "g" + string('z'-o.long[0]+'a')
	case o.short == 'D':
		return "dz"
	case o.short == 'H':
		return "jz"
	case o.short == 'M':
		return "mz"
	}
	return string(o.short)
}

// printVersion prints the version in the form in which other programs look for
// it.
func printVersion(w io.Writer, v gcov.Version) {
	if v.Number() == 0 {
		v = gcov.MakeVersion(gcov.Newest, 0)
	}
	fmt.Fprintf(w, "gcov (footfall) %s\n", v.Text())
	if jsonFormat2(v) {
		fmt.Fprintln(w, "JSON format version: 2")
	}
	fmt.Fprint(w, "This is footfall, which prints what gcov of that version prints.\n\n")
}
