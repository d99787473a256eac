package early

import (
	"fmt"
	"os"
	"path"
	"strings"

	"footfall/command/options"
	"footfall/compile"
	"footfall/compile/instrument"
	"footfall/output"
)

// asCompiler is footfall where a build has put it: in the place of the compiler, before
// the assembler or the linker.
func asCompiler(argv []string) {
	if orders, err := compile.ReadOrders(argv); orders != nil && err == nil && len(orders.Only)+len(orders.Not) == 0 {
		os.Exit(orders.Assemble(argv[1:], nil))
	}
	if orders, err := compile.ReadLink(argv); orders != nil && err == nil && len(orders.Only)+len(orders.Not) == 0 {
		os.Exit(orders.Link(argv, nil))
	}
	if o, args := command(argv); args != nil {
		status, err := o.Run(args)
		if err != nil {
			fmt.Fprintf(output.Stderr, "footfall: %v\n", err)
			status = max(status, 1)
		}
		os.Exit(status)
	}
}

// command returns the options and the compiler's command line of footfall cc, nil
// if the command line argv is not one that is understood here, or options may
// stand in a file.
func command(argv []string) (o *compile.Options, args []string) {
	if named := compile.ByName(argv); named != nil {
		argv = named
	}
	if len(argv) < 2 || argv[1] != "cc" || strings.Contains(path.Base(argv[0]), "cov") { // gcov has such arguments, too
		return nil, nil
	}
	o, args = parse(argv[2:])
	if len(args) == 0 || o.Check() != nil {
		return nil, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, nil
	}
	if name, err := options.Find(here); name != "" || err != nil {
		return nil, nil
	}
	return o, args
}

// parse reads those options that need nothing else of footfall, up to the
// compiler's command line behind "--".
func parse(words []string) (o *compile.Options, args []string) {
	o = &compile.Options{Update: instrument.Thread}
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		if (name == "--for" || name == "--update") && !given {
			if i++; i == len(words) {
				return nil, nil
			}
			value = words[i]
		}
		switch name {
		case "--":
			if o.Purposes == nil {
				o.Purposes = []string{"calls"}
			}
			return o, words[i+1:]
		case "--for":
			o.Purposes = append(o.Purposes, strings.Split(value, ",")...)
		case "--update":
			var err error
			if o.Update, err = instrument.ParseUpdate(value); err != nil {
				return nil, nil
			}
		case "-v", "--verbose":
			if given {
				return nil, nil
			}
			o.Verbose = true
		default:
			return nil, nil
		}
	}
	return nil, nil
}
