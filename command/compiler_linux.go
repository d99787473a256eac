package command

import (
	"fmt"

	_ "footfall/command/early" // compiles, where that is all there is to do
	"footfall/compile"
	"footfall/output"
)

// asCompiler is footfall where a build has put it: before the assembler, the linker, or in
// the place of the compiler; argv becomes the command line of footfall cc then.
func asCompiler(argv *[]string) (status int, done bool) {
	if orders, err := compile.ReadOrders(*argv); err != nil {
		fmt.Fprintf(output.Stderr, "footfall: %v\n", err)
		return statusFailed, true
	} else if orders != nil {
		c := choice{only: orders.Only, not: orders.Not}
		return orders.Assemble((*argv)[1:], c.selector()), true
	}
	if orders, err := compile.ReadLink(*argv); err != nil {
		fmt.Fprintf(output.Stderr, "footfall: %v\n", err)
		return statusFailed, true
	} else if orders != nil {
		c := choice{only: orders.Only, not: orders.Not}
		return orders.Link(*argv, c.selector()), true
	}
	if byName := compile.ByName(*argv); byName != nil {
		*argv = byName
	}
	return 0, false
}

// compileRuntime makes what counted programs are linked with.
func compileRuntime(compiler string, args []string, object string) error {
	return compile.Runtime(compiler, args, object)
}
