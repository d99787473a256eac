//go:build linux

package compile

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"footfall/compile/instrument"
)

// additions returns the flags to add before and after the user's, and variables
// for the assembler's step. Its error says why calls cannot be counted.
func (o *Options) additions(compiler string, c *command) (extra, after, env []string, err error) {
	sources := c.sources()
	wanted := len(sources) == 0 || o.Wanted == nil || slices.ContainsFunc(sources, o.Wanted)
	orders := Orders{Update: o.Update, Only: o.Only, Not: o.Not, Sources: sources, CPU: c.cpu, Verbose: o.Verbose, KeepR11: c.keepR11}
	for _, purpose := range o.Purposes {
		switch {
		case purpose == "coverage" && wanted && c.regions: // counting each of them twice would help nobody
			extra = append(extra, "-fcoverage-mapping", "-fprofile-update=atomic")
		case purpose == "coverage" && wanted:
			extra = append(extra, "--coverage", "-fprofile-update=atomic")
		case purpose == "trace" && wanted && len(sources) > 0:
			extra = append(extra, "-fpatchable-function-entry=5")
			orders.Sites = !c.clang && majorVersion(compiler) < 14
		case purpose == "calls":
			orders.Calls = true
			if c.clang && c.lto && !c.fat && c.stops == "assembling" {
				orders.Calls = false // that is left to the linker
				continue
			}
			extra = append(extra, counting(c)...)
			if c.stops != "" || !c.runtime {
				continue
			}
			macros, libraries, err := o.standIns(c)
			if err != nil {
				return nil, nil, nil, err
			}
			object, err := cachedRuntime(compiler, slices.Concat(macros, c.target))
			if err != nil {
				return nil, nil, nil, err
			}
			after = append(after, "-x", "none", object)
			after = append(after, libraries...)
		}
	}
	if orders.Calls || orders.Sites {
		flags, variable, err := o.hook(compiler, c, orders)
		if err != nil {
			return nil, nil, nil, err
		}
		if orders.Calls && c.linkerPath != "" && c.links() {
			after = append(after, "--ld-path="+path.Join(flags[1], linkerName(c.linkerPath)))
		}
		// The compiler may be ccache by another name: see withoutLauncher. The step
		// has work for one thread; Go would start more.
		extra, env = append(extra, flags...), append(env, variable, "CCACHE_DISABLE=1", "GOMAXPROCS=1")
	}
	return extra, after, env, nil
}

// majorVersion returns that of a compiler, 0 if it does not tell.
func majorVersion(compiler string) int {
	_, out, _ := program{path: compiler, args: []string{compiler, "-dumpversion"}, env: os.Environ(), catch: []int{1}}.run()
	text, _, _ := strings.Cut(strings.TrimSpace(string(out)), ".")
	n, _ := strconv.Atoi(text)
	return n
}

// standIns returns what the runtime is compiled with, and what it is linked with, so
// that it stands in for functions of the C library.
func (o *Options) standIns(c *command) (macros, libraries []string, err error) {
	macro, names := "-DFOOTFALL_THREADS", threadMakers
	switch {
	case o.Update == instrument.Split:
		macro, names = "-DFOOTFALL_SIGNALS", handlerInstallers
	case o.Update != instrument.Locked || c.shared:
		return nil, nil, nil
	}
	if c.static {
		return []string{macro + "=2"}, []string{"-Wl,--wrap=" + strings.Join(names, ",--wrap=")}, nil
	}
	libraries = []string{"-ldl"} // dlsym, before glibc 2.34
	if !c.shared {
		list, err := dynamicList(slices.Concat(names, notifiers))
		if err != nil {
			return nil, nil, err
		}
		libraries = append(libraries, "-Wl,--dynamic-list="+list)
	}
	return []string{macro + "=1"}, libraries, nil
}

// counting returns the flags that make the compiler write assembly in which calls
// can be counted.
func counting(c *command) []string {
	switch {
	case c.links() && c.lto && !c.fat:
		return []string{"-Qunused-arguments"}
	case c.links():
		return []string{"-fno-integrated-as", "-Qunused-arguments"}
	case c.clang:
		return []string{"-fno-integrated-as"}
	case c.cpu == "arm64":
		// GCC keeps values in x16 and x17 across calls of functions that it knows.
		return []string{"-fno-ipa-ra"}
	}
	return []string{"-dp"} // tells indirect tail calls from switches
}

// links tells whether clang runs a linker, which may have to compile.
func (c *command) links() bool { return c.clang && c.stops == "" }

// linkerName returns the name for footfall as a linker that is called otherwise.
func linkerName(name string) string {
	base := path.Base(name)
	if base == "ld" || strings.HasPrefix(base, "ld.") {
		return base
	}
	return "ld." + base
}

// hook returns the flags that put our step before the assembler, and its orders.
func (o *Options) hook(compiler string, c *command, orders Orders) (flags []string, env string, err error) {
	names := []string{"as"}
	if c.links() && orders.Calls {
		names = []string{"ld", "as", "ld.lld", "ld.bfd", "ld.gold"}
		if c.linkerPath != "" {
			names = append(names, linkerName(c.linkerPath))
			if orders.Linker, err = lookPath(c.linkerPath); err != nil {
				return nil, "", err
			}
		} else if c.linker != "" {
			names = append(names, linkerName("ld."+c.linker))
		}
		orders.Compiler, orders.Target = compiler, append(c.target, c.prefixes...)
		if len(orders.Sources) == 0 {
			orders.Sources = []string{c.output}
		}
	}
	dir, err := hookDir(names...)
	if err != nil {
		return nil, "", err
	}
	if orders.Assembler, err = tool(compiler, "as", c.target); err != nil {
		return nil, "", err
	}
	return []string{"-B", dir + "/"}, ordersVariable + "=" + orders.String(), nil
}
