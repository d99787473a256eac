// Package early compiles, and is gcov, before the rest of footfall is initialised.
//
// A build starts footfall twice for each source, as footfall cc and as the step
// before the assembler; what makes reports starts gcov for each data file. None
// needs the packages for BPF, pages, data bases, profiles and so on, whose variables
// take longer to initialise than all of the work. Go initialises packages in the
// order of their import paths, each when what it imports is ready; this one imports
// little, and so comes before all of those. Its init function does what is plain
// there and then, and exits. Whatever else the command line says is left to main,
// which does the same for all.
package early

import "os"

func init() {
	if len(os.Args) > 0 {
		asCompiler(os.Args)
		asGcov(os.Args)
	}
}
