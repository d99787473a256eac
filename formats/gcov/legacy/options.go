package legacy

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"footfall/formats/gcov"
	"footfall/formats/gcov/getopt"
	"footfall/input"
)

// A Style is the gcov of a compiler before GCC 3.4. They differ little
// but in words: there is one source file, its listings, and one summary.
type Style int

const (
	Any  Style = iota // that of the files
	GCC2              // GCC 2.91 to 3.2
	GCC3              // GCC 3.3
)

// ParseStyle tells which style the gcov of a version such as "2.95" or
// "3.2" has; ok is false for versions that are not that old.
func ParseStyle(version string) (style Style, ok bool) {
	major, minor, _ := strings.Cut(version, ".")
	minor, _, _ = strings.Cut(minor, ".")
	switch {
	case major == "2" && (minor == "" || strings.HasPrefix(minor, "9")), major == "3" && (minor == "0" || minor == "1" || minor == "2"):
		return GCC2, true
	case major == "3" && minor == "3":
		return GCC3, true
	}
	return Any, false
}

// Claims tells whether a command line of gcov is about files of a compiler
// before GCC 3.4: they are there, and newer ones are not.
func Claims(args []string) bool {
	l := &legacyListing{inv: &Invocation{Args: args}}
	if l.find(); l.input == "" {
		return false
	}
	for _, style := range []Style{GCC3, GCC2} {
		l.style = style
		stem := l.stem()
		if _, err := os.Stat(stem + ".gcno"); err == nil {
			return false
		}
		if _, err := os.Stat(stem + ".bb"); err == nil {
			return true
		}
	}
	return false
}

var legacyOptions = []getopt.Option{
	getopt.Flag("help", 'h'), getopt.Flag("version", 'v'), getopt.Flag("branch-probabilities", 'b'), getopt.Flag("branch-counts", 'c'), getopt.Flag("no-output", 'n'),
	getopt.Flag("long-file-names", 'l'), getopt.Flag("function-summaries", 'f'), getopt.Flag("preserve-paths", 'p'),
	getopt.Value("object-directory", 'o'), getopt.Value("object-file", 'o'),
}

const legacyUsage = `Usage: gcov [OPTION...] SOURCE

Print code coverage information.

  -b, --branch-probabilities     list branches and calls
  -c, --branch-counts            with -b: counts in place of percentages
  -f, --function-summaries       sum up each function
  -l, --long-file-names          name listings of headers after the source too
  -n, --no-output                write no files
  -o, --object-directory DIR|FILE
                                 find .bb, .bbg and .da in DIR or as FILE
  -p, --preserve-paths           keep directories in names of listings
  -h, --help                     print this help
  -v, --version                  print the version

This is footfall's gcov.
`

// find looks in the command line only for what tells the style: which source,
// and where its files are.
func (l *legacyListing) find() {
	g := getopt.Parser{Short: "hvbclnfo:p", Long: legacyOptions, Stderr: io.Discard, Args: l.inv.Args}
	for opt, arg := g.Next(); opt != 0; opt, arg = g.Next() {
		if opt == 'o' {
			l.object = arg
		}
	}
	if len(g.Operands) == 1 {
		l.input = g.Operands[0]
	}
}

// parse reads the command line of GCC 3.3's gcov.
func (l *legacyListing) parse() (status int, stop bool) {
	g := getopt.Parser{Prog: filepath.Base(l.inv.Prog), Short: "hvbclnfo:p", Long: legacyOptions, Stderr: l.inv.Stderr, Args: l.inv.Args}
	for opt, arg := g.Next(); opt != 0; opt, arg = g.Next() {
		switch opt {
		case 'c':
			l.counts = true
		case 'p':
			l.preserve = true
		case 'o':
			l.object = arg
		case 'v':
			l.printf("gcov (footfall) 3.3\nThis is footfall, which prints what gcov of that version prints.\n\n")
			return 0, true
		case 'h':
			l.printf("%s", legacyUsage)
			return 0, true
		case '?':
			l.errorf("%s", legacyUsage)
			return 1, true
		default:
			l.set(opt)
		}
	}
	if len(g.Operands) != 1 {
		l.errorf("%s", legacyUsage)
		return 1, true
	}
	l.input = g.Operands[0]
	return 0, false
}

// set sets an option that both styles have.
func (l *legacyListing) set(opt byte) bool {
	switch opt {
	case 'b':
		l.branches = true
	case 'n':
		l.write = false
	case 'l':
		l.long = true
	case 'f':
		l.functions = true
	default:
		return false
	}
	return true
}

// parseOld reads the command line of GCC 2's gcov, which looks only at the first
// letter of an option.
func (l *legacyListing) parseOld() (status int, stop bool) {
	l.object, l.input = "", ""
	args := l.inv.Args
	wrong := false
	for len(args) > 0 && !wrong {
		arg := args[0]
		args = args[1:]
		switch {
		case !strings.HasPrefix(arg, "-"):
			wrong = l.input != ""
			l.input = arg
		case strings.HasPrefix(arg, "-v"):
			l.errorf("GNU gcov version 1.5\n")
		case arg == "-o" && len(args) > 0:
			l.object, args = args[0], args[1:]
		default:
			wrong = len(arg) < 2 || !l.set(arg[1])
		}
	}
	if wrong || l.input == "" {
		l.errorf("gcov [-b] [-v] [-n] [-l] [-f] [-o OBJDIR] file\n")
		return l.fatalStatus(), true
	}
	return 0, false
}

// lastName is what follows the last slash.
func lastName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// stem is the name of the files without suffix.
func (l *legacyListing) stem() string {
	name := l.input
	if l.object != "" {
		st, err := os.Stat(l.object)
		if l.old() || err == nil && st.IsDir() {
			name = strings.TrimSuffix(l.object, "/") + "/" + lastName(l.input)
		} else {
			name = l.object
		}
	} else if !l.old() {
		name = lastName(l.input)
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}

// guess finds the style of the files. Those of a source without functions are
// empty: then files beside them tell.
func (l *legacyListing) guess() Style {
	for _, style := range []Style{GCC3, GCC2} {
		l.style = style
		name := l.stem() + ".bbg"
		others, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "*.bbg"))
		for _, file := range append([]string{name}, others...) {
			b, err := input.ReadFile(file, input.MostData)
			switch {
			case err == nil && gcov.NamedGraph(b):
				return GCC3
			case err == nil && len(b) > 0:
				return GCC2
			}
		}
	}
	return GCC3
}
