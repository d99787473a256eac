package tool

import "fmt"

// usage tells how the program is called, or one of its commands, as Go's does.
func (r *run) usage(message string) {
	w := r.Stderr
	if message != "" {
		fmt.Fprintf(w, "error: %s\n", message)
	}
	if r.general {
		fmt.Fprint(w, `usage: go tool covdata [command]

Commands are:

textfmt     convert coverage data to textual format
percent     output total percentage of statements covered
pkglist     output list of package import paths
func        output coverage profile information for each function
merge       merge data files together
subtract    subtract one set of data files from another set
intersect   generate intersection of two sets of data files
debugdump   dump data in human-readable format for debugging purposes

For help on a specific subcommand, try:

go tool covdata <cmd> -help
`)
		return
	}
	directories := map[string]string{"merge": "<directories> -o=<dir>", "subtract": "dir1,dir2 -o=<dir>", "intersect": "dir1,dir2 -o=<dir>"}[r.command]
	if directories == "" {
		directories = "<directories>"
	}
	fmt.Fprintf(w, "usage: go tool covdata %s -i=%s\n\n", r.command, directories)
	r.flags.SetOutput(w)
	r.flags.PrintDefaults()
	fmt.Fprintf(w, "\nExamples:\n\n")
	fmt.Fprint(w, map[string]string{
		"pkglist": `  go tool covdata pkglist -i=dir1,dir2

  	reads coverage data files from dir1+dirs2
  	and writes out a list of the import paths
  	of all compiled packages.
`,
		"textfmt": `  go tool covdata textfmt -i=dir1,dir2 -o=out.txt

  	merges data from input directories dir1+dir2
  	and emits text format into file 'out.txt'
`,
		"percent": `  go tool covdata percent -i=dir1,dir2

  	merges data from input directories dir1+dir2
  	and emits percentage of statements covered

`,
		"func": `  go tool covdata func -i=dir1,dir2

  	reads coverage data files from dir1+dirs2
  	and writes out coverage profile data for
  	each function.
`,
		"debugdump": `  go tool covdata debugdump [flags] -i=dir1,dir2

  	reads coverage data from dir1+dir2 and dumps
  	contents in human-readable form to stdout, for
  	debugging purposes.
`,
		"merge": `  go tool covdata merge -i=dir1,dir2,dir3 -o=outdir

  	merges all files in dir1/dir2/dir3
  	into output dir outdir
`,
		"subtract": `  go tool covdata subtract -i=dir1,dir2 -o=outdir

  	subtracts dir2 from dir1, writing result
  	into output dir outdir.
`,
		"intersect": `  go tool covdata intersect -i=dir1,dir2 -o=outdir

  	intersects dir2 with dir1, writing result
  	into output dir outdir.
`,
	}[r.command])
}
