package change

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"footfall/coverage"
)

// A Diff is what a unified diff tells: which lines of which files differ
// between an old and a new version of sources.
type Diff struct {
	// Top is the directory that the names are relative to, "" if it is not
	// known.
	Top   string
	Files []FileDiff
	// Here tells that the new version is the one in the directory Top.
	Here bool
	// New are sources in it that git does not know yet, and that it is not told to
	// ignore. No file of Files is among them, all their lines are new.
	New []string
	// Warning is what to say of where the diff comes from, mostly "".
	Warning string
}

// A FileDiff is the part of a diff about one file.
type FileDiff struct {
	// Old and New are the names of the file, without the a/ and b/ of git; ""
	// for the old version of a new file and the new version of a deleted one.
	Old, New string
	// Edits make the new version of the old one; a nil slice is that of a file
	// that was only renamed.
	coverage.Edits
	inserted [][]string // lines, for each edit
	removed  [][]string // lines, for each edit
	context  []contextLine
	untold   string    // why the diff does not have the lines that changed; mostly ""
	module   [2]string // commits of a submodule, "" for none
	blobs    [2]string // what git calls the old and the new contents, or the beginning of that; "" if it is not said
	gone     bool      // there is no new version, though it has a name: GNU diff -N says so by its time
}

// A contextLine is one of the new version that the diff shows and that did not
// change, or but for white space.
type contextLine struct {
	number int32
	text   string
}

// Why a diff may not have the lines of a file.
const (
	asBinary    = "taken for binary, so that its lines are not in the diff; --text of git diff and of diff shows them"
	asSubmodule = "a submodule, the lines of which are not in the diff; git diff --submodule=diff shows them"
	asLink      = "a symbolic link: how what it leads to differs is not in the diff"
	asOnlyIn    = "only in one of two directories, so that its lines are not in the diff; diff -N shows them"
	asUnmerged  = "not merged yet, so that its lines are not in the diff"
)

// inserts tells whether the new version has lines that the old one had not, or
// may have some.
func (f *FileDiff) inserts() bool {
	return f.untold != "" || slices.ContainsFunc(f.Edits, func(e coverage.Edit) bool { return e.Inserted > 0 })
}

// deleted are the lines that the first edit deletes.
func (f *FileDiff) deleted() []string {
	if len(f.removed) == 0 {
		return nil
	}
	return f.removed[0]
}

// isEmpty tells whether the new version may have no lines at all.
func (f *FileDiff) isEmpty() bool {
	return len(f.Edits) == 1 && f.Edits[0].New == 1 && f.Edits[0].Inserted == 0 && len(f.context) == 0
}

// insertsBlank tells whether all lines that the new version has more are known, and of white space only.
func (f *FileDiff) insertsBlank() bool {
	return f.untold == "" && !slices.ContainsFunc(slices.Concat(f.inserted...), func(line string) bool { return strings.TrimSpace(line) != "" })
}

// ReadDiff reads a unified diff, as git, GNU diff, Subversion and Mercurial
// write it:
//
//	diff --git a/OLD b/NEW     and "rename from", "Binary files" and others
//	--- a/OLD[TAB time]        /dev/null: there is none
//	+++ b/NEW[TAB time]
//	@@ -LINE,COUNT +LINE,COUNT @@    without ",COUNT": one; of none, the line before
//	 both, -old, +new          COUNT lines of each
//	\ No newline at end of file
//
// Git quotes names with odd bytes as C does. All else is text between files,
// of mails for example. Lines may end in CR LF. A diff that ends where lines
// have to follow is an error. Errors begin with name and the line.
func ReadDiff(name string, r io.Reader) (*Diff, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	d := &diffReader{rest: text, diff: &Diff{}}
	err = d.read()
	if err == nil {
		err = d.settle()
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, d.number, err)
	}
	if len(d.diff.Files) == 0 && len(bytes.TrimSpace(text)) > 0 && !d.known {
		return nil, fmt.Errorf("%s: %w; git diff and diff -u write them", name, errNoDiff)
	}
	return d.diff, nil
}

var errNoDiff = errors.New("this is not a unified diff")

type diffReader struct {
	rest    []byte
	number  int // of the last line
	diff    *Diff
	headers []fileHeader // of the files of diff
	header  fileHeader
	known   bool // there was a header of git, though maybe no lines
}

// next returns the next line without its end.
func (d *diffReader) next() (line string, ok bool) {
	if len(d.rest) == 0 {
		return "", false
	}
	text, rest, _ := bytes.Cut(d.rest, []byte("\n"))
	d.rest = rest
	d.number++
	return strings.TrimSuffix(string(text), "\r"), true
}

var (
	// The line before a file of "hg diff".
	mercurialHeader = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^diff (?:-r [0-9a-f]{12,40} ){1,2}(.+)$`) })
	// A line of "git diff --submodule".
	submoduleHeader = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^Submodule (.+) (?:[0-9a-f]{7,}\.{2,3}[0-9a-f]{7,}|contains modified content)`)
	})
	// All lines of a submodule. It has one of them.
	submoduleLines = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^@@ .*\r?\n(?:-Subproject commit ([0-9a-f]+)\S*\r?\n)?(?:\+Subproject commit ([0-9a-f]+)\S*\r?\n)?$`)
	})
)

func (d *diffReader) read() error {
	for {
		line, ok := d.next()
		begins := strings.HasPrefix(line, "diff --git ") || strings.HasPrefix(line, "Index: ") || mercurialHeader().MatchString(line)
		if (!ok || begins) && d.header.lacksLines() {
			return fmt.Errorf("the lines of %s have to follow: is the diff cut?", d.header.git)
		}
		if !ok || begins {
			d.endHeader()
		}
		switch {
		case !ok:
			return nil
		case strings.HasPrefix(line, "diff --git "):
			d.known, d.header.git = true, line[len("diff --git "):]
		case strings.HasPrefix(line, "Index: "):
			d.header.index = line[len("Index: "):]
		case begins:
			d.header.index = mercurialHeader().FindStringSubmatch(line)[1]
		case strings.HasPrefix(line, "diff --cc "), strings.HasPrefix(line, "diff --combined "), strings.HasPrefix(line, "@@@ "):
			return errors.New("a combined diff, of a merge, has several old versions: compare with one of them, as git diff BASE does")
		case strings.HasPrefix(line, "@@ -"):
			return errors.New("a hunk of a file whose name is not before it: is a part of the diff missing?")
		case len(d.rest) == 0 && !d.header.lacksLines() && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "diff -")):
			return fmt.Errorf("lines have to follow %q: is the diff cut?", line)
		case strings.HasPrefix(line, "--- ") && bytes.HasPrefix(d.rest, []byte("+++ ")):
			if err := d.file(line); err != nil {
				return err
			}
		case !d.untold(line):
			d.header.read(line)
		}
	}
}

// endHeader ends what is known of a file. One without lines counts if it was
// renamed, or if its lines are not told.
func (d *diffReader) endHeader() {
	if h := &d.header; !h.done && (h.to != "" || h.untold != "") {
		d.add(FileDiff{untold: h.untold})
	}
	d.header = fileHeader{}
}

func (d *diffReader) add(f FileDiff) {
	d.header.done, d.header.end = true, d.number
	d.diff.Files = append(d.diff.Files, f)
	d.headers = append(d.headers, d.header)
}

// untold takes up a line that says that the lines of a file are not in the
// diff, and tells whether it is one.
func (d *diffReader) untold(line string) bool {
	file := func(name, why string) {
		d.endHeader()
		d.known, d.header.new, d.header.untold = true, name, why
		d.endHeader()
	}
	binary := strings.HasPrefix(line, "Binary file") || line == "GIT binary patch" || strings.HasPrefix(line, "Cannot display: ")
	if binary && !d.header.done && (d.header.git != "" || d.header.index != "") {
		d.known, d.header.untold = true, asBinary
		return true
	}
	if names, ok := strings.CutPrefix(line, "Binary files "); ok {
		if _, name, ok := strings.Cut(strings.TrimSuffix(names, " differ"), " and "); ok {
			file(name, asBinary)
		}
	} else if rest, ok := strings.CutPrefix(line, "Only in "); ok {
		if dir, name, ok := strings.Cut(rest, ": "); ok {
			file(dir+"/"+name, asOnlyIn)
		}
	} else if name, ok := strings.CutPrefix(line, "* Unmerged path "); ok {
		file(name, asUnmerged)
	} else if m := submoduleHeader().FindStringSubmatch(line); m != nil {
		file(m[1], asSubmodule)
	} else {
		return false
	}
	return true
}

// file reads the part about one file; old is its first line.
func (d *diffReader) file(old string) error {
	new, _ := d.next()
	if d.header.done {
		d.endHeader()
	}
	h := &d.header
	h.old, h.new = withoutTime(old[len("--- "):]), withoutTime(new[len("+++ "):])
	var f FileDiff
	lines := d.rest
	for bytes.HasPrefix(d.rest, []byte("@@ ")) {
		if err := d.hunk(&f); err != nil {
			return err
		}
	}
	if f.Edits == nil && !bytes.HasPrefix(bytes.TrimLeft(d.rest, "\r\n"), []byte("Property changes on: ")) {
		return fmt.Errorf("the lines of %s have to follow: is the diff cut?", cmp.Or(headerName(h.new), headerName(h.old)))
	}
	f.gone = f.isEmpty() && atEpoch(new)
	if h.mode == "120000" {
		f.untold = asLink
	}
	if commits := submoduleLines().FindSubmatch(lines[:len(lines)-len(d.rest)]); len(commits) > 0 && len(commits[1])+len(commits[2]) > 0 {
		f.untold, f.module = asSubmodule, [2]string{string(commits[1]), string(commits[2])}
	}
	d.add(f)
	return nil
}

// hunk reads a group of lines and adds its edits to f.
func (d *diffReader) hunk(f *FileDiff) error {
	header, _ := d.next()
	ranges, _, ok := strings.Cut(header[len("@@ "):], " @@")
	old, new, _ := strings.Cut(ranges, " ")
	oldLine, oldCount, ok1 := parseRange(old, "-")
	newLine, newCount, ok2 := parseRange(new, "+")
	if !ok || !ok1 || !ok2 {
		return fmt.Errorf("%q is not @@ -LINE,COUNT +LINE,COUNT @@", header)
	}
	var last coverage.Edit
	if n := len(f.Edits); n > 0 {
		last = f.Edits[n-1]
	}
	switch unchanged := oldLine - (last.Old + last.Deleted); {
	case unchanged < 0:
		return errors.New("the lines of this hunk are before those of the last one")
	case newLine-(last.New+last.Inserted) != unchanged:
		return fmt.Errorf("%q does not follow from the hunks before it: is one missing?", header)
	}
	var edit coverage.Edit
	var inserted, removed []string
	end := func() {
		if edit.Deleted+edit.Inserted > 0 {
			f.Edits = append(f.Edits, edit)
			f.inserted = append(f.inserted, inserted)
			f.removed = append(f.removed, removed)
		}
		edit, inserted, removed = coverage.Edit{}, nil, nil
	}
	for oldCount > 0 || newCount > 0 {
		line, ok := d.next()
		if !ok {
			return fmt.Errorf("the diff ends %d lines before its hunk", max(oldCount, newCount))
		}
		kind := byte(' ') // mailers cut off spaces at the end of lines
		if line != "" {
			kind, line = line[0], line[1:]
		}
		if edit.Deleted+edit.Inserted == 0 {
			edit.Old, edit.New = oldLine, newLine
		}
		switch {
		case kind == ' ' && oldCount > 0 && newCount > 0:
			end()
			f.context = append(f.context, contextLine{newLine, line})
			oldLine, oldCount, newLine, newCount = oldLine+1, oldCount-1, newLine+1, newCount-1
		case kind == '-' && oldCount > 0:
			edit.Deleted++
			removed = append(removed, line)
			oldLine, oldCount = oldLine+1, oldCount-1
		case kind == '+' && newCount > 0:
			edit.Inserted++
			inserted = append(inserted, line)
			newLine, newCount = newLine+1, newCount-1
		case kind == '\\':
		default:
			return fmt.Errorf("a line of the hunk that begins with %q: %d old and %d new lines are missing", kind, oldCount, newCount)
		}
	}
	end()
	for bytes.HasPrefix(d.rest, []byte(`\`)) {
		d.next()
	}
	if bytes.HasPrefix(d.rest, []byte("+")) || bytes.HasPrefix(d.rest, []byte("-")) && !bytes.HasPrefix(d.rest, []byte("--")) {
		return fmt.Errorf("there are more lines than %q says", header)
	}
	return nil
}

// parseRange reads "-12,3". The first line of none is the one after.
func parseRange(s, sign string) (line, count int32, ok bool) {
	s, ok = strings.CutPrefix(s, sign)
	first, n, counted := strings.Cut(s, ",")
	a, err := strconv.ParseUint(first, 10, 31)
	b := uint64(1)
	if counted && err == nil {
		b, err = strconv.ParseUint(n, 10, 31)
	}
	if b == 0 {
		a++
	}
	if !ok || err != nil || a == 0 || a+b > math.MaxInt32 {
		return 0, 0, false
	}
	return int32(a), int32(b), true
}
