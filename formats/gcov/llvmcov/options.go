package llvmcov

import (
	"fmt"
	"io"
	"strings"

	"github.com/agnivade/levenshtein"
)

type llvmOptions struct {
	blocks, branches, counts, functions, intermediate, longNames bool
	demangle, noOutput, paths, relative, stdout, unconditional   bool
	hash, dump, help, version                                    bool
	object, prefix, gcno, gcda                                   string
}

// An llvmOption is an option of llvm-cov gcov, under all its names.
type llvmOption struct {
	names []string // the one shown in messages first
	flag  func(*llvmOptions) *bool
	value func(*llvmOptions) *string
	arg   string // what the value is
	since func(llvmVersion) bool
	text  string
}

// llvmOptionTable has the options in the order of the help.
var llvmOptionTable = []llvmOption{
	{names: []string{"a", "all-blocks"}, flag: func(o *llvmOptions) *bool { return &o.blocks },
		text: "Display all basic blocks"},
	{names: []string{"b", "branch-probabilities"}, flag: func(o *llvmOptions) *bool { return &o.branches },
		text: "Display branch probabilities"},
	{names: []string{"c", "branch-counts"}, flag: func(o *llvmOptions) *bool { return &o.counts },
		text: "Display branch counts, not percentages (with -b)"},
	{names: []string{"demangled-names", "m"}, flag: func(o *llvmOptions) *bool { return &o.demangle }, since: llvmVersion.hasPrefixes,
		text: "Demangle function names"},
	{names: []string{"f", "function-summaries"}, flag: func(o *llvmOptions) *bool { return &o.functions },
		text: "Show coverage of each function"},
	{names: []string{"intermediate-format", "i"}, flag: func(o *llvmOptions) *bool { return &o.intermediate }, since: llvmVersion.hasIntermediate,
		text: "Write the .gcov file in the intermediate text format"},
	{names: []string{"l", "long-file-names"}, flag: func(o *llvmOptions) *bool { return &o.longNames },
		text: "Put the name of the main file before those of listings"},
	{names: []string{"n", "no-output"}, flag: func(o *llvmOptions) *bool { return &o.noOutput },
		text: "Write no .gcov files"},
	{names: []string{"o", "object-directory", "object-file"}, value: func(o *llvmOptions) *string { return &o.object }, arg: "<DIR|FILE>",
		text: "Find notes and data in DIR, or beside FILE"},
	{names: []string{"p", "preserve-paths"}, flag: func(o *llvmOptions) *bool { return &o.paths },
		text: "Keep path components in names of listings"},
	{names: []string{"r", "relative-only"}, flag: func(o *llvmOptions) *bool { return &o.relative }, since: llvmVersion.hasPrefixes,
		text: "List relative paths only, and those with the prefix of -s"},
	{names: []string{"s", "source-prefix"}, value: func(o *llvmOptions) *string { return &o.prefix }, arg: "<string>", since: llvmVersion.hasPrefixes,
		text: "Source prefix to leave out"},
	{names: []string{"t", "stdout"}, flag: func(o *llvmOptions) *bool { return &o.stdout }, since: llvmVersion.hasIntermediate,
		text: "Write to the standard output"},
	{names: []string{"u", "unconditional-branches"}, flag: func(o *llvmOptions) *bool { return &o.unconditional },
		text: "Display unconditional branches (with -b)"},
	{names: []string{"x", "hash-filenames"}, flag: func(o *llvmOptions) *bool { return &o.hash },
		text: "Put a hash of the path into names of listings"},
	{names: []string{"help", "h"}, flag: func(o *llvmOptions) *bool { return &o.help },
		text: "Display the options"},
	{names: []string{"version"}, flag: func(o *llvmOptions) *bool { return &o.version },
		text: "Display the version of this program"},
	{names: []string{"dump"}, flag: func(o *llvmOptions) *bool { return &o.dump },
		text: "Write the graphs to the standard error"},
	{names: []string{"gcda"}, value: func(o *llvmOptions) *string { return &o.gcda }, arg: "<string>",
		text: "Data file to read instead"},
	{names: []string{"gcno"}, value: func(o *llvmOptions) *string { return &o.gcno }, arg: "<string>",
		text: "Notes file to read instead"},
}

// An llvmParser goes through the arguments as LLVM's command line library
// does: all of them before it gives up, with a message for each that is wrong.
type llvmParser struct {
	run      *llvmRun
	opts     llvmOptions
	args     []string
	next     int             // argument to look at
	seen     map[string]bool // options by their first name
	failed   bool
	finished bool // --help or --version
}

// parse returns the options and operands; done tells that the run ends here
// with that status.
func (run *llvmRun) parse(args []string) (opts llvmOptions, operands []string, status int, done bool) {
	p := &llvmParser{run: run, args: llvmResponseFiles(run, args), seen: make(map[string]bool)}
	onlyOperands := false
	for p.next < len(p.args) {
		arg := p.args[p.next]
		p.next++
		switch {
		case onlyOperands || len(arg) < 2 || arg[0] != '-':
			operands = append(operands, arg)
		case arg == "--":
			onlyOperands = true
		default:
			p.option(arg)
		}
		if p.finished {
			return p.opts, nil, 0, true
		}
	}
	if len(operands) == 0 {
		run.say("%s: Not enough positional command line arguments specified!\n"+
			"Must specify at least 1 positional argument: See: %s --help\n", llvmName(run.inv.Prog), run.inv.Prog)
		p.failed = true
	}
	if p.failed {
		return p.opts, nil, 1, true
	}
	return p.opts, operands, 0, false
}

// lookup finds the option with that name.
func (p *llvmParser) lookup(name string) *llvmOption {
	for i := range llvmOptionTable {
		o := &llvmOptionTable[i]
		if o.since != nil && !o.since(p.run.version) {
			continue
		}
		for _, n := range o.names {
			if n == name {
				return o
			}
		}
	}
	return nil
}

// option handles one argument that starts with a dash.
func (p *llvmParser) option(arg string) {
	name := strings.TrimPrefix(arg[1:], "-")
	key, value, given := strings.Cut(name, "=")
	if o := p.lookup(key); o != nil {
		p.set(o, key, value, given)
		return
	}
	name, ok := p.group(name)
	if ok {
		return
	}
	p.run.say("%s: Unknown command line argument '%s'.  Try: '%s --help'\n", llvmName(p.run.inv.Prog), arg, p.run.inv.Prog)
	p.run.say("%s: Did you mean '%s'?\n", llvmName(p.run.inv.Prog), p.shown(p.nearest(name)))
	p.failed = true
}

// group handles letters that stand together, -abn. If one of them is unknown
// or may not stand there, the ones before it are set, and it is returned.
func (p *llvmParser) group(name string) (rest string, ok bool) {
	if len(name) == 1 {
		return name, false
	}
	for {
		o := p.lookup(name[:1])
		if o == nil {
			return name, false
		}
		letter, rest := name[:1], name[1:]
		switch {
		case rest == "":
			p.set(o, letter, "", false)
			return "", true
		case rest[0] == '=':
			p.set(o, letter, rest[1:], true)
			return "", true
		case o.value != nil:
			p.complain(o, letter, "may not occur within a group!")
			return letter, false
		}
		p.set(o, letter, "", false)
		if p.finished {
			return "", true
		}
		name = rest
	}
}

// set gives an option its value.
func (p *llvmParser) set(o *llvmOption, name, value string, given bool) {
	switch {
	case o.value != nil && !given:
		if p.next == len(p.args) {
			p.complain(o, name, "requires a value!")
			return
		}
		value = p.args[p.next]
		p.next++
	case name == "version" && given:
		p.complain(o, name, fmt.Sprintf("does not allow a value! '%s' specified.", value))
		return
	}
	if p.seen[o.names[0]] && !p.run.version.repeatsOptions() {
		p.complain(o, o.names[0], "may only occur zero or one times!")
		return
	}
	p.seen[o.names[0]] = true
	if o.value != nil {
		*o.value(&p.opts) = value
		return
	}
	switch value {
	case "", "true", "TRUE", "True", "1":
		*o.flag(&p.opts) = true
	case "false", "FALSE", "False", "0":
		*o.flag(&p.opts) = false
	default:
		p.complain(o, o.names[0], fmt.Sprintf("'%s' is invalid value for boolean argument! Try 0 or 1", value))
	}
	switch {
	case p.opts.help:
		p.run.help()
		p.finished = true
	case p.opts.version:
		p.run.banner()
		p.finished = true
	}
}

// complain says what is wrong with the use of an option.
func (p *llvmParser) complain(o *llvmOption, name, msg string) {
	p.run.say("%s: for the %s option: %s\n", llvmName(p.run.inv.Prog), p.shown(name), msg)
	p.failed = true
}

// shown is an option's name with its dashes.
func (p *llvmParser) shown(name string) string {
	dashes := "--"
	if len(name) == 1 {
		dashes = "-"
	}
	if p.run.version.indentsOptions() {
		dashes = "  " + dashes
	}
	return dashes + name
}

// nearest is the option whose name is most like that one, with its value. LLVM
// takes the first of several in the order of a hash table that also has some
// hundred options of the compiler; only which of the short ones comes first in
// Debian's builds is kept here.
func (p *llvmParser) nearest(name string) string {
	name, value, _ := strings.Cut(name, "=")
	best := p.run.version.firstOption()
	least := levenshtein.ComputeDistance(name, best)
	for i := range llvmOptionTable {
		for _, n := range llvmOptionTable[i].names {
			if d := levenshtein.ComputeDistance(name, n); d < least && p.lookup(n) != nil {
				best, least = n, d
			}
		}
	}
	if value != "" {
		best += "=" + value
	}
	return best
}

// llvmResponseFiles replaces each @FILE by the arguments in that file; one
// that cannot be read stays as it is.
func llvmResponseFiles(run *llvmRun, args []string) []string {
	var out []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "@") && len(arg) > 1 {
			if text, err := run.read(arg[1:]); err == nil {
				out = append(out, llvmSplit(string(text))...)
				continue
			}
		}
		out = append(out, arg)
	}
	return out
}

// llvmSplit splits text into arguments, with quotes and backslashes.
func llvmSplit(text string) []string {
	var out []string
	var word strings.Builder
	inWord := false
	var quote byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			word.WriteByte(text[i])
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case strings.IndexByte(" \t\r\n\x00", c) >= 0:
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		out = append(out, word.String())
	}
	return out
}

// help prints the options in LLVM's layout.
func (run *llvmRun) help() {
	out := run.stdout
	fmt.Fprintf(out, "OVERVIEW: LLVM code coverage tool\n\nUSAGE: %s [options] SOURCEFILE\n\nOPTIONS:\n", llvmName(run.inv.Prog))
	for i := range llvmOptionTable {
		o := &llvmOptionTable[i]
		if o.since != nil && !o.since(run.version) {
			continue
		}
		switch o.names[0] {
		case "a":
			io.WriteString(out, "\nGeneral options:\n\n")
		case "help":
			io.WriteString(out, "\nGeneric Options:\n\n")
		case "dump":
			io.WriteString(out, "\nInternal and debugging options:\n\n")
		}
		run.helpLine(o, o.names[0], o.text)
		switch o.names[0] {
		case "intermediate-format", "demangled-names":
			run.helpLine(o, o.names[1], "Alias for --"+o.names[0])
		}
	}
	io.WriteString(out, "\n")
}

func (run *llvmRun) helpLine(o *llvmOption, name, text string) {
	switch {
	case len(name) > 1 && o.arg != "":
		name = "--" + name + "=" + o.arg
	case len(name) > 1:
		name = "--" + name
	case o.arg != "" && run.version.repeatsOptions():
		name = "-" + name + " " + o.arg
	case o.arg != "":
		name = "-" + name + "=" + o.arg
	default:
		name = "-" + name
	}
	fmt.Fprintf(run.stdout, "  %-24s - %s\n", name, text)
}

// banner prints the version in the form that tools look for.
func (run *llvmRun) banner() {
	if !run.version.solvesTree() {
		io.WriteString(run.stdout, "LLVM (http://llvm.org/):\n  ")
	} else {
		io.WriteString(run.stdout, "footfall ")
	}
	fmt.Fprintf(run.stdout, "LLVM version %d.0.0\n  Optimized build.\n", int(run.version))
}
