// Footfall shows what a native program runs: which lines, branches and calls,
// and how often.
package main

import (
	"os"

	"footfall/command"
)

func main() { os.Exit(command.Main(os.Args)) }
