package source

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"footfall/formats/gcov"
	"footfall/formats/gocover"
)

// A Problem is something that was found and could not be used, or not wholly.
type Problem struct {
	File   string
	Offset int64  // in bytes, -1: the file as a whole
	Kind   string // problems of one kind are said together: "data files without notes"
	Err    error  // what is wrong, and what to do
	Line   int32  // of a text, from 1; 0: the file as a whole
}

// Kinds of problems.
const (
	Unreadable = "places that cannot be read"
	NoNotes    = "data files without notes"
	Unpaired   = "data files whose notes are not certain"
	OtherBuild = "data files of another build"
	NoSource   = "sources that cannot be read"
	BadRecord  = "records of reports that cannot be used"
	CutReport  = "reports that are cut or empty"
	noFile     = "files that cannot be read"
	Damaged    = "damaged files"
	FoundTwice = "files with several names"
	OtherName  = "names that an output cannot have as they are"
	NoCode     = "notes without functions" // nothing is wrong with them

	NoBinary     = "profiles without their binary"
	OtherProfile = "functions whose counts are of another build"
	EmptyProfile = "profiles that are empty"
	CountedTwice = "profiles that count twice"

	Undecided = "programs of parts of which it is not known whether they ran"

	WrongMarkers = "exclusion markers that are wrong"
)

func NewProblem(kind, file string, err error) Problem {
	return Problem{File: file, Offset: -1, Kind: kind, Err: err}
}

func (p Problem) String() string {
	if p.Offset >= 0 {
		return fmt.Sprintf("%s: at offset %#x: %v", p.File, p.Offset, p.Err)
	}
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", p.File, p.Line, p.Err)
	}
	return fmt.Sprintf("%s: %v", p.File, p.Err)
}

// Collected turns the problems of [gcov.Collect] into those of a report.
func Collected(problems []gcov.InputProblem) []Problem {
	kinds := map[gcov.ProblemKind]string{
		gcov.Unreadable:     noFile,
		gcov.Damaged:        Damaged,
		gcov.Rebuilt:        OtherBuild,
		gcov.UnknownVersion: "files of unknown versions",
		gcov.Empty:          NoCode,
	}
	var out []Problem
	for _, p := range problems {
		out = append(out, Problem{File: p.File, Offset: p.Offset, Kind: kinds[p.Kind], Err: p.Err})
	}
	return out
}

// Unseen counts the problems behind which there may be code that nobody knows of:
// places, notes and reports that cannot be read, or not to their end, in which
// there is nothing, and notes that are missing. What else is wrong with data files
// only takes away from what is covered.
func Unseen(problems []Problem) int {
	n := 0
	for _, p := range problems {
		switch p.Kind {
		case Unreadable, NoNotes, NoBinary, OtherProfile, CutReport:
			n++
		case noFile, Damaged:
			if ext := path.Ext(p.File); ext != ".gcda" && ext != ".da" && ext != ".profraw" && !gocover.IsCountersName(p.File) {
				n++
			}
		}
	}
	return n
}

// Wrong divides problems into those and what is but good to know.
func Wrong(problems []Problem) (wrong, notes []Problem) {
	for _, p := range problems {
		if p.Kind == NoCode {
			notes = append(notes, p)
		} else {
			wrong = append(wrong, p)
		}
	}
	return wrong, notes
}

// fewProblems are told one by one.
const fewProblems = 3

// PrintProblems writes a line for each problem, but only one for many of a
// kind, unless all are wanted.
func PrintProblems(w io.Writer, problems []Problem, all bool) {
	byKind := make(map[string][]Problem)
	var kinds []string
	for _, p := range problems {
		if byKind[p.Kind] == nil {
			kinds = append(kinds, p.Kind)
		}
		byKind[p.Kind] = append(byKind[p.Kind], p)
	}
	for _, k := range kinds {
		group := byKind[k]
		slices.SortStableFunc(group, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Line, b.Line))
		})
		if len(group) > fewProblems && !all {
			fmt.Fprintf(w, "footfall: %d %s (--verbose lists them), the first: %v\n", len(group), k, group[0])
			continue
		}
		for _, p := range group {
			fmt.Fprintf(w, "footfall: %v\n", p)
		}
	}
}

// WithoutPath tells why a file cannot be used, without repeating its name.
func WithoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
