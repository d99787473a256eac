package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"footfall/coverage"
)

// A SourceDiff is what a unified diff tells: which lines of which files
// differ between an old and a new version of sources.
type SourceDiff struct {
	// Top is the directory that the names are relative to, "" if it is not
	// known.
	Top   string
	Files []FileDiff
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
// of mails for example. Lines may end in CR LF. Errors begin with name and
// the line.
func ReadDiff(name string, r io.Reader) (*SourceDiff, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	d := &diffReader{rest: text, diff: &SourceDiff{}, seen: make(map[string]bool)}
	if err := d.read(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, d.number, err)
	}
	if len(d.diff.Files) == 0 && len(bytes.TrimSpace(text)) > 0 && !d.known {
		return nil, fmt.Errorf("%s: this is not a unified diff; git diff and diff -u write them", name)
	}
	return d.diff, nil
}

type diffReader struct {
	rest   []byte
	number int // of the last line
	diff   *SourceDiff
	seen   map[string]bool // new names
	known  bool            // there was a header of git, though maybe no lines
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

func (d *diffReader) read() error {
	var renamed string // from
	for {
		line, ok := d.next()
		if !ok {
			return nil
		}
		switch {
		case strings.HasPrefix(line, "diff --git "), strings.HasPrefix(line, "Index: "):
			renamed, d.known = "", true
		case strings.HasPrefix(line, "diff --cc "), strings.HasPrefix(line, "diff --combined "), strings.HasPrefix(line, "@@@ "):
			return errors.New("a combined diff, of a merge, has several old versions: compare with one of them, as git diff BASE does")
		case strings.HasPrefix(line, "rename from "):
			renamed = unquote(line[len("rename from "):])
		case strings.HasPrefix(line, "rename to ") && renamed != "":
			// If it was also changed, names and lines follow.
			d.diff.Files = append(d.diff.Files, FileDiff{Old: renamed, New: unquote(line[len("rename to "):])})
		case strings.HasPrefix(line, "--- ") && bytes.HasPrefix(d.rest, []byte("+++ ")):
			if err := d.file(line); err != nil {
				return err
			}
		}
	}
}

// file reads the part about one file; header is its first line.
func (d *diffReader) file(header string) error {
	line, _ := d.next()
	old, new := diffNames(header[len("--- "):], line[len("+++ "):])
	f := FileDiff{Old: old, New: new}
	for bytes.HasPrefix(d.rest, []byte("@@ ")) {
		if err := d.hunk(&f); err != nil {
			return err
		}
	}
	if n := len(d.diff.Files); n > 0 {
		if last := &d.diff.Files[n-1]; last.New == f.New && last.Old == f.Old && last.Edits == nil {
			*last = f // of a file that was renamed and changed
			return nil
		}
	}
	if f.New != "" && d.seen[f.New] {
		return fmt.Errorf("%s is changed a second time: of a series of patches, give one diff of all, as git diff BASE writes it", f.New)
	}
	d.seen[f.New] = true
	d.diff.Files = append(d.diff.Files, f)
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
	var inserted []string
	end := func() {
		if edit.Deleted+edit.Inserted > 0 {
			f.Edits = append(f.Edits, edit)
			f.inserted = append(f.inserted, inserted)
		}
		edit, inserted = coverage.Edit{}, nil
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
			oldLine, oldCount, newLine, newCount = oldLine+1, oldCount-1, newLine+1, newCount-1
		case kind == '-' && oldCount > 0:
			edit.Deleted++
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

// diffNames returns the names of the two headers of a file, without what git
// puts before them: a/ and b/, or other letters on request.
func diffNames(old, new string) (string, string) {
	old, new = headerName(old), headerName(new)
	a, restOfOld, ok1 := strings.Cut(old, "/")
	b, restOfNew, ok2 := strings.Cut(new, "/")
	prefix := func(s string) bool { return len(s) == 1 && strings.Contains("abciow", s) }
	switch {
	case old == "" && ok2 && prefix(b):
		new = restOfNew
	case new == "" && ok1 && prefix(a):
		old = restOfOld
	case ok1 && ok2 && prefix(a) && prefix(b) && a != b:
		old, new = restOfOld, restOfNew
	}
	return old, new
}

// headerName returns the name in a header, "" for none.
func headerName(s string) string {
	if !strings.HasPrefix(s, `"`) {
		s, _, _ = strings.Cut(s, "\t") // what follows is a time
	}
	if s = unquote(s); s == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(s, "./")
}

// unquote returns a name that git may have put in quotes, with octal and C's
// escapes in it.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' {
		return s
	}
	var name []byte
	for i := 1; i < len(s) && s[i] != '"'; i++ {
		c := s[i]
		if c != '\\' || i+1 == len(s) {
			name = append(name, c)
			continue
		}
		if n, err := strconv.ParseUint(s[i+1:min(i+4, len(s))], 8, 8); err == nil {
			name = append(name, byte(n))
			i += 3
			continue
		}
		i++
		if k := strings.IndexByte("abfnrtv", s[i]); k >= 0 {
			name = append(name, "\a\b\f\n\r\t\v"[k])
		} else {
			name = append(name, s[i])
		}
	}
	return string(name)
}
