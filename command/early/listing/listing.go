// Package listing is gcov of small files, before the rest of footfall is initialised.
//
// What makes reports starts gcov for each data file. As with package early, it needs none
// of the packages for BPF, pages, data bases, profiles and so on, whose variables
// take longer to initialise than all of the work. It imports more than that one does, and so
// comes later, but before most of those.
package listing

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"footfall/command/asgcov"
	"footfall/input"
	"footfall/output"
)

func init() {
	if len(os.Args) == 0 {
		return
	}
	if prog, args, stderr := called(os.Args); prog != "" && size(args) < most {
		os.Exit(asgcov.Run(prog, args, output.Standard(os.Stdout), stderr))
	}
}

// called returns the name, "" for none, and the arguments of the gcov that the command line
// argv calls, and where to it says what is wrong.
func called(argv []string) (prog string, args []string, stderr io.Writer) {
	name := filepath.Base(argv[0])
	switch {
	case strings.Contains(name, "gcov") && asgcov.IsName(argv[0]):
		return argv[0], argv[1:], output.Standard(os.Stderr)
	case name == "footfall" && len(argv) > 2 && argv[1] == "gcov" && !asgcov.WantsHelp(argv[2:]):
		return "footfall gcov", argv[2:], output.Stderr
	}
	return "", nil, nil
}

// most is up to how many bytes of notes gcov is done here: with more, garbage would be
// collected early.
const most = 1 << 18

// size is that of the notes which arguments name, if they stand beside.
func size(args []string) (bytes int64) {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		if info, err := input.Stat(strings.TrimSuffix(arg, filepath.Ext(arg)) + ".gcno"); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
