// Package llvmcov does what llvm-cov gcov of LLVM 9 and later does with the notes and data of Clang's
// --coverage. It reads and solves in its own way, as llvm-cov does, down to the messages.
package llvmcov

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"footfall/input"
)

// Invocation is one call of `llvm-cov gcov`.
type Invocation struct {
	// Prog is the command as it was called, "llvm-cov-19 gcov"; messages show
	// it, with and without its directory.
	Prog string
	// Version is the major version of LLVM that is asked for, 9 to 23; 0 is
	// the newest.
	Version int
	Args    []string // what follows Prog
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// Dir is where relative names are looked up and listings are written; ""
	// is the working directory of the process.
	Dir string
}

// An llvmVersion is a major version of LLVM. Its methods are the questions
// about what llvm-cov gcov did when; the older ones have two reasons: until 10
// it read what Clang of that time wrote and no more, and in 12 the counts of
// arcs that have no counter, of lines, and the listing were done anew.
type llvmVersion int

const llvmNewest llvmVersion = 23

func (v llvmVersion) fixedLayout() bool      { return v < 11 }  // records in Clang's order only, versions 402*, 404*, 704*
func (v llvmVersion) indentsOptions() bool   { return v < 10 }  // "for the   -o option"
func (v llvmVersion) hasIntermediate() bool  { return v >= 11 } // -i, -t
func (v llvmVersion) solvesTree() bool       { return v >= 12 }
func (v llvmVersion) hasPrefixes() bool      { return v >= 12 } // -m, -r, -s
func (v llvmVersion) sharesLines() bool      { return v < 15 }  // a line is in the summary of the first of its functions only
func (v llvmVersion) repeatsOptions() bool   { return v >= 15 } // an option may be given twice
func (v llvmVersion) knowsOldClang() bool    { return v < 18 }  // reads the summaries of Clang 9 as they are meant
func (v llvmVersion) normalizesNames() bool  { return v >= 18 } // ./x.h and x.h are one source
func (v llvmVersion) linesKeepSource() bool  { return v >= 21 } // lines of a header in a block count for the header
func (v llvmVersion) readsByteLengths() bool { return v >= 13 } // notes of GCC 12, but for the word they have more

// Run is `llvm-cov gcov` of that version: it reads the notes and data that
// the arguments name, writes listings and summaries, and returns the exit
// status.
func Run(inv *Invocation) int {
	stdout := bufio.NewWriterSize(inv.Stdout, 1<<16)
	defer stdout.Flush()
	run := &llvmRun{
		inv:     inv,
		version: llvmVersion(inv.Version),
		stdout:  stdout,
	}
	if run.version == 0 || run.version > llvmNewest {
		run.version = llvmNewest
	}
	opts, operands, status, done := run.parse(inv.Args)
	if done {
		return status
	}
	run.opts = opts
	for _, operand := range operands {
		run.operand(operand)
	}
	return 0
}

// An llvmRun is the state of one invocation.
type llvmRun struct {
	inv     *Invocation
	version llvmVersion
	opts    llvmOptions
	stdout  *bufio.Writer
	owners  input.Owners // of notes and data
}

func (run *llvmRun) say(format string, args ...any) {
	fmt.Fprintf(run.inv.Stderr, format, args...)
}

// operand does all for one source file named on the command line.
func (run *llvmRun) operand(source string) {
	stem := run.stem(source)
	gcno, gcda := stem+".gcno", stem+".gcda"
	if run.opts.gcno != "" {
		gcno = run.opts.gcno
	}
	if run.opts.gcda != "" {
		gcda = run.opts.gcda
	}
	notes, err := run.read(gcno)
	if err != nil {
		run.say("%s: %s\n", gcno, llvmErrorText(err))
		return
	}
	f := &llvmFile{version: run.version, stderr: run.inv.Stderr}
	if !f.readNotes(notes) {
		run.say("Invalid .gcno File!\n")
		return
	}
	data, err := run.read(gcda)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		gcda = "-"
	case err != nil:
		run.say("%s: %s\n", gcda, llvmErrorText(err))
		return
	case !run.version.fixedLayout() && !llvmIsData(data):
		run.say("%s:not a gcov data file\n", gcda)
	case !f.readData(data):
		run.say("Invalid .gcda File!\n")
		if run.version.fixedLayout() {
			return
		}
	}
	if run.opts.dump {
		w := bufio.NewWriter(run.inv.Stderr)
		f.dump(w)
		w.Flush()
	}
	l := &llvmListing{run: run, file: f, main: source, gcno: gcno, gcda: gcda}
	if run.version.solvesTree() {
		l.print()
	} else {
		l.printOld()
	}
}

// stem is the name of the notes and data of a source, without extension.
func (run *llvmRun) stem(source string) string {
	dir := run.opts.object
	switch {
	case dir == "":
		return llvmJoin(llvmParent(source), llvmStem(source))
	case run.isDir(dir):
		return llvmJoin(dir, llvmStem(source))
	}
	if dot := strings.LastIndexByte(dir, '.'); dot >= llvmNameStart(dir) {
		dir = dir[:dot]
	}
	return dir
}

func (run *llvmRun) path(name string) string {
	if run.inv.Dir == "" || strings.HasPrefix(name, "/") {
		return name
	}
	return filepath.Join(run.inv.Dir, name)
}

func (run *llvmRun) isDir(name string) bool {
	st, err := os.Stat(run.path(name))
	return err == nil && st.IsDir()
}

// read returns the contents of a file; "-" is the standard input.
func (run *llvmRun) read(name string) ([]byte, error) {
	if name == "-" {
		if run.inv.Stdin == nil {
			return nil, nil
		}
		return io.ReadAll(run.inv.Stdin)
	}
	if name == "" {
		return nil, syscall.ENOENT
	}
	f, err := run.owners.OpenGiven(run.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return input.ReadAll(f, name, input.MostData)
}

// llvmErrorText is what the C library calls the error.
func llvmErrorText(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	// Go spells these as C does but for the first letter.
	s := errno.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

func llvmIsData(b []byte) bool {
	return bytes.HasPrefix(b, []byte("gcda")) || bytes.HasPrefix(b, []byte("adcg"))
}

// firstOption is the short option that comes first in the table of options, in
// Debian's builds.
func (v llvmVersion) firstOption() string {
	switch {
	case v >= 23:
		return "l"
	case v >= 22:
		return "f"
	case v >= 17:
		return "o"
	case v >= 12:
		return "W" // an option of the library
	case v >= 11:
		return "b"
	}
	return "n"
}
