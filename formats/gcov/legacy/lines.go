package legacy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"footfall/formats/gcov"
	"footfall/output"
)

// list prints the summary of a source and writes its listing.
func (l *legacyListing) list(s *legacySource) {
	var sum legacySummary
	for number, line := range s.lines {
		if number == 0 {
			continue // branches before the first line
		}
		sum.lines += toInt(line.exists)
		sum.linesRun += toInt(line.exists && line.count != 0)
		for _, b := range line.branches {
			sum.add(b, l.old())
		}
	}
	path := s.name
	if l.old() && l.object != "" && !strings.HasPrefix(path, "/") {
		path = strings.TrimSuffix(l.object, "/") + "/" + path
	}
	l.summary(&sum, "file", path)
	if !l.write {
		return
	}
	source, err := gcov.ReadSourceFile(&l.owners, path)
	if err != nil {
		l.errorf("Could not open source file %s.\n", path)
		if l.old() {
			return
		}
	}
	name := l.listingName(s, path)
	f, createErr := output.Create(name)
	if createErr != nil {
		l.errorf("Could not open output file %s.\n", name)
		return
	}
	w := bufio.NewWriter(f)
	l.printf("Creating %s.\n", name)
	if l.old() {
		l.listOld(w, s, path, source)
	} else {
		l.listNew(w, s, source, err == nil)
	}
	defer f.Discard()
	if w.Flush() != nil || f.Close() != nil {
		l.errorf("Error writing output file %s.\n", name)
	}
}

// listingName is the name of the file that a source is listed in.
func (l *legacyListing) listingName(s *legacySource, path string) string {
	if l.old() {
		name := lastName(path)
		if l.long && lastName(s.name) != l.input {
			name = lastName(l.input) + "." + name
		}
		return name + ".gcov"
	}
	part := lastName
	if l.preserve {
		part = func(name string) string { return name }
	}
	name := part(s.name)
	if l.long && s.name != l.input {
		name = part(l.input) + "##" + name
	}
	if l.preserve {
		name = flattenPath(name)
	}
	return name + ".gcov"
}

// flattenPath replaces slashes by #, drops "." and makes ".." a ^.
func flattenPath(name string) string {
	parts := strings.Split(name, "/")
	var out []string
	for i, p := range parts {
		switch {
		case i == len(parts)-1: // the file
			out = append(out, p)
		case p == ".":
		case p == "..":
			out = append(out, "^")
		default:
			out = append(out, p)
		}
	}
	return strings.Join(out, "#")
}

// listOld writes the listing of GCC 2: no numbers, and tabs before lines without
// code. Its buffer keeps the last piece of the source beyond the end.
func (l *legacyListing) listOld(w io.Writer, s *legacySource, path string, source []byte) {
	r := &pieces{rest: source}
	for i := int32(1); i <= s.last; i++ {
		line := s.at(i)
		ok := r.next()
		switch {
		case !line.exists:
			fmt.Fprintf(w, "\t\t%s", r.piece)
		case line.count != 0:
			fmt.Fprintf(w, "%12d    %s", line.count, r.piece)
		default:
			fmt.Fprintf(w, "      ######    %s", r.piece)
		}
		for ok && !r.ends() {
			ok = r.next()
			w.Write(r.piece)
		}
		for n, b := range line.branches {
			if l.branches {
				b.printOld(w, n)
			}
		}
		if !ok {
			l.errorf("Unexpected EOF while reading source file %s.\n", path)
			break
		}
	}
	for ok := r.next(); ok; ok = r.next() {
		fmt.Fprintf(w, "\t\t%s", r.piece)
		for ok && !r.ends() {
			ok = r.next()
			w.Write(r.piece)
		}
	}
}

func (b legacyBranch) printOld(w io.Writer, n int) {
	switch percent := b.percent(); {
	case b.call && percent == -1:
		fmt.Fprintf(w, "call %d never executed\n", n)
	case b.call:
		fmt.Fprintf(w, "call %d returns = %d%%\n", n, 100-percent)
	case percent == -1:
		fmt.Fprintf(w, "branch %d never executed\n", n)
	default:
		fmt.Fprintf(w, "branch %d taken = %d%%\n", n, percent)
	}
}

// listNew writes the listing of GCC 3.3.
func (l *legacyListing) listNew(w io.Writer, s *legacySource, source []byte, there bool) {
	fmt.Fprintf(w, "%9s:%5d:Source:%s\n%9s:%5d:Object:%s\n", "-", 0, s.name, "-", 0, l.bbName)
	if st, err := os.Stat(s.name); there && err == nil && st.ModTime().Unix() > l.bbTime.Unix() {
		l.errorf("Warning: source file %s is newer than %s\n", s.name, l.bbName)
		fmt.Fprintf(w, "%9s:%5d:Source is newer than compiler output\n", "-", 0)
	}
	r := &pieces{rest: source}
	ok := there
	for i := int32(1); i <= s.last; i++ {
		line := s.at(i)
		count := "-"
		switch {
		case line.exists && line.count == 0:
			count = "#####"
		case line.exists:
			count = fmt.Sprint(line.count)
		}
		fmt.Fprintf(w, "%9s:%5d:", count, i)
		for done := false; ok && !done; {
			if ok = r.next(); !ok {
				l.errorf("Unexpected EOF while reading source file %s.\n", s.name)
				break
			}
			w.Write(r.piece)
			done = r.ends()
		}
		if !ok {
			io.WriteString(w, "??\n")
		}
		for n, b := range line.branches {
			if l.branches {
				b.printNew(w, n, l.counts)
			}
		}
	}
	for i := s.last + 1; ok && r.next(); i++ {
		fmt.Fprintf(w, "%9s:%5d:%s", "-", i, r.piece)
		for !r.ends() && r.next() {
			w.Write(r.piece)
		}
	}
}

func (b legacyBranch) printNew(w io.Writer, n int, counts bool) {
	word, value, verb := "branch", b.hits, "taken"
	if b.call {
		word, value, verb = "call  ", b.total-b.hits, "returns"
	}
	switch {
	case b.total == 0:
		fmt.Fprintf(w, "%s %2d never executed\n", word, n)
	case counts:
		fmt.Fprintf(w, "%s %2d %s %d\n", word, n, verb, value)
	default:
		fmt.Fprintf(w, "%s %2d %s %s\n", word, n, verb, legacyPercent(value, b.total, 0))
	}
}

// pieces are what fgets reads into a buffer of 200 bytes: a line or a part of a
// long one. At the end the last piece stays.
type pieces struct {
	rest, piece []byte
}

func (p *pieces) next() bool {
	if len(p.rest) == 0 {
		return false
	}
	n := min(len(p.rest), 199)
	if i := bytes.IndexByte(p.rest[:n], '\n'); i >= 0 {
		n = i + 1
	}
	p.piece, p.rest = p.rest[:n], p.rest[n:]
	if i := bytes.IndexByte(p.piece, 0); i >= 0 {
		p.piece = p.piece[:i] // what C takes for the end
	}
	return true
}

// ends tells whether the piece ends a line.
func (p *pieces) ends() bool { return bytes.HasSuffix(p.piece, []byte("\n")) }
