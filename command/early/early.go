//go:build linux

// Package early compiles before the rest of footfall is initialised.
//
// A build starts footfall twice for each source, as footfall cc and as the step
// before the assembler. Neither needs the packages for file systems, BPF, pages
// and so on, whose variables take longer to initialise than all of the work. Go
// initialises packages in the order of their import paths, each when what it
// imports is ready; this one imports little, and so comes before all of those.
// Its init function does what is plain there and then, and exits. Whatever else
// the command line says is left to main, which does the same for all.
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

func init() {
	if orders, err := compile.ReadOrders(os.Args); orders != nil && err == nil && len(orders.Only)+len(orders.Not) == 0 {
		os.Exit(orders.Assemble(os.Args[1:], nil))
	}
	if orders, err := compile.ReadLink(os.Args); orders != nil && err == nil && len(orders.Only)+len(orders.Not) == 0 {
		os.Exit(orders.Link(os.Args, nil))
	}
	if o, args := command(os.Args); args != nil {
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
