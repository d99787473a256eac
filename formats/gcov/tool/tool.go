// Package tool does what gcov-tool and gcov-dump do: it merges, rewrites and compares
// directories of data files, and prints the records of notes and data. What a record is and how
// counts add up is in package gcov.
package tool

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"footfall/formats/gcov"
	"footfall/formats/gcov/getopt"
)

// A Invocation is one run of gcov-tool.
type Invocation struct {
	Prog   string   // as it was called, for messages
	Args   []string // merge, rewrite, overlap or merge-stream, and its arguments
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Version is the gcov-tool that we are to be: it takes only data of that
	// version. 0 takes data of every version, any number of directories, and says
	// more.
	Version gcov.Version
}

// Run does what gcov-tool does: it merges, rewrites and compares
// directories of data files. It returns the exit status.
//
// Gcov-tool fails, or writes what cannot be read, where data have profiles of
// values (-fprofile-generate) that it must scale, or functions that the linker
// dropped; there footfall does what was asked for.
func Run(inv *Invocation) int {
	args, err := getopt.Expand(inv.Args)
	if err != nil {
		fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	t := &tool{Invocation: inv, prog: filepath.Base(inv.Prog)}
	g := getopt.Parser{Prog: t.prog, Short: "hv", Long: []getopt.Option{getopt.Flag("help", 'h'), getopt.Flag("version", 'v')}, Stops: true, Stderr: inv.Stderr, Args: args}
	switch opt, _ := g.Next(); {
	case opt == 'h':
		io.WriteString(inv.Stdout, t.usage())
		return 0
	case opt == 'v':
		v := inv.Version
		if v == 0 {
			v = gcov.MakeVersion(gcov.Newest, 0)
		}
		fmt.Fprintf(inv.Stdout, "%s (footfall) %s\nThis is footfall, which does what gcov-tool of that version does.\n\n", t.prog, v.Text())
		return 0
	case opt != 0 || len(g.Operands) == 0:
		io.WriteString(inv.Stderr, t.usage())
		return 1
	}
	for _, c := range toolCommands {
		if c.name == g.Operands[0] && inv.Version.AtLeast(c.from) {
			return c.run(t, g.Operands[1:])
		}
	}
	io.WriteString(inv.Stderr, t.usage())
	return 1
}

// A toolCommand is the first operand of gcov-tool.
type toolCommand struct {
	name  string
	from  int // the first version times ten
	title string
	usage string
	run   func(t *tool, args []string) int
}

var toolCommands []toolCommand

func init() {
	toolCommands = []toolCommand{
		{"merge", 0, "Merge", "merge [-o DIR] [-w W1,W2] [-v] DIR1 DIR2", (*tool).merge},
		{"merge-stream", 130, "Merge-stream", "merge-stream [-w W1,W2] [-v] [FILE]", (*tool).mergeStream},
		{"rewrite", 0, "Rewrite", "rewrite [-o DIR] [-n MAX | -s FACTOR] [-v] DIR", (*tool).rewrite},
		{"overlap", 0, "Overlap", "overlap [-f] [-F] [-o] [-h] [-t THRESHOLD] [-v] DIR1 DIR2", (*tool).overlap},
	}
}

// A tool is gcov-tool at work.
type tool struct {
	*Invocation
	prog    string
	verbose bool
	exact   bool // do what the manual says, where gcov-tool does otherwise
}

func (t *tool) usage() string {
	s := "Usage: " + t.prog + " [OPTION]... SUB_COMMAND [OPTION]...\n\nWork on directories of data files.\n\n"
	for _, c := range toolCommands {
		if t.Version.AtLeast(c.from) {
			s += "  " + c.usage + "\n"
		}
	}
	return s + "\nThis is footfall's gcov-tool.\n"
}

// command is what complaints about options begin with, in gcov-tool the name of
// the command alone.
func (t *tool) command(name string) string {
	if t.Version != 0 {
		return name
	}
	return t.prog + " " + name
}

// misused says how a command is used.
func (t *tool) misused(name string) int {
	for _, c := range toolCommands {
		if c.name == name {
			sub := "subcommand"
			if !t.Version.AtLeast(130) && name != "rewrite" {
				sub = "subcomand"
			}
			fmt.Fprintf(t.Stderr, "%s %s usage:  %s\n", c.title, sub, c.usage)
		}
	}
	return 1
}

// fatal says why the program ends.
func (t *tool) fatal(format string, args ...any) int {
	fmt.Fprintf(t.Stderr, "%s: fatal error: %s\ncompilation terminated.\n", t.prog, fmt.Sprintf(format, args...))
	return 1
}

// scanInt reads an integer as scanf does, and returns what follows it.
func scanInt(s string) (n int, rest string, ok bool) {
	x, rest, ok := scanLong(s)
	return int(int32(x)), rest, ok
}

// scanLong is scanInt for 64 bits.
func scanLong(s string) (n int64, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && (s[0] == '-' || s[0] == '+')) {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	return n, s[end:], err == nil
}

// parseWeights reads "w1,w2", any number of them when we are no gcov-tool of a
// version. What cannot be read is 1.
func (t *tool) parseWeights(arg string, weights *[]uint32) bool {
	*weights = nil
	for {
		n, rest, ok := scanInt(arg)
		if !ok {
			return true
		}
		if n < 0 {
			return false
		}
		*weights = append(*weights, uint32(n))
		if rest == "" || rest[0] != ',' {
			return true
		}
		arg = rest[1:]
	}
}

func weight(weights []uint32, i int) uint32 {
	if i < len(weights) {
		return weights[i]
	}
	return 1
}

// said is what there is to say of one file, for standard output and error.
type said struct{ out, err strings.Builder }

func (s *said) errorf(format string, args ...any) { fmt.Fprintf(&s.err, format, args...) }

// say prints it.
func (t *tool) say(s *said) {
	io.WriteString(t.Stdout, s.out.String())
	io.WriteString(t.Stderr, s.err.String())
}
