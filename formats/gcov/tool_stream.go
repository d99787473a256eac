package gcov

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"footfall/input"
	"footfall/output"
)

// A stream of counts is what a program without files sends when it calls
// __gcov_filename_to_gcfn and __gcov_info_to_gcda for each object in its section
// .gcov_info (-fprofile-info-section):
//
//	"gcfn"  version  name          since GCC 13; where the data file belongs
//	"gcda"  version  stamp  ...    a data file without summary, to its closing 0
//
// and so on to the end. Without the first the name is found by the stamp, in the
// notes.

const nameMagic = 0x6763666e // "gcfn"

// A streamPart is the data of one object.
type streamPart struct {
	name   string
	counts *Counts
}

// mergeStream adds counts that a program without files has sent: for each
// object its name and its data, back to back.
func (t *tool) mergeStream(args []string) int {
	var weights []uint32
	objects := "."
	g := getopt{prog: t.command("merge-stream"), short: "vw:", long: []longOption{{"verbose", false, 'v'}, {"weight", true, 'w'}}, stderr: t.Stderr, args: args}
	if t.Version == 0 {
		g.short += "o:"
		g.long = append(g.long, longOption{"exact", false, 'e'}, longOption{"object-directory", true, 'o'})
	}
	for opt, arg := g.next(); opt != 0; opt, arg = g.next() {
		switch opt {
		case 'v':
			t.verbose = true
		case 'e':
			t.exact = true
		case 'o':
			objects = arg
		case 'w':
			if !t.parseWeights(arg, &weights) {
				return t.fatal("weights need to be non-negative")
			}
		default:
			return t.misused("merge-stream")
		}
	}
	if len(g.operands) > 1 {
		return t.misused("merge-stream")
	}
	name, b, err := "<stdin>", []byte(nil), error(nil)
	if len(g.operands) == 1 && !(t.Version == 0 && g.operands[0] == "-") {
		name = g.operands[0]
		b, err = input.ReadFile(name, input.MostData)
	} else {
		b, err = readAll(t.Stdin)
	}
	if err != nil {
		s := new(said)
		s.errorf("%s:cannot open:%s\n", name, systemError(err))
		t.say(s)
		if t.verbose {
			fmt.Fprintln(t.Stdout, "no profile files were merged")
		}
		if t.Version == 0 {
			return 1
		}
		return 0
	}
	return t.mergeParts(t.splitStream(name, b, objects), weights)
}

// splitStream reads a stream as far as it goes. objects is where to look for the
// notes of data without a name.
func (t *tool) splitStream(stream string, b []byte, objects string) []streamPart {
	var parts []streamPart
	var notes map[uint32]string
	at := 0 // offset of b in the stream
	s := new(said)
	defer func() { t.say(s) }()
	for len(b) > 0 {
		name, n, ok := t.streamName(stream, b, s)
		if !ok {
			return parts
		}
		c := t.decodePart(stream, b[n:], at+n, s)
		if c == nil {
			return parts
		}
		if n == 0 {
			if notes == nil {
				notes = notesByStamp(objects)
			}
			name = notes[c.Stamp]
			if name == "" {
				s.errorf("%s:data at offset %#x have no name, and no notes below %s have their stamp %08x: --object-directory names the place\n", stream, at, objects, c.Stamp)
			}
		}
		rest := c.Trailer[min(4, len(c.Trailer)):]
		c.Trailer = make([]byte, 4)
		if name != "" {
			parts = append(parts, streamPart{name, c})
		}
		at += len(b) - len(rest)
		b = rest
	}
	return parts
}

// streamName reads a name; n is its length, 0 for data without one.
func (t *tool) streamName(stream string, b []byte, s *said) (name string, n int, ok bool) {
	r := reader{b: b}
	switch r.word() {
	case nameMagic:
	case swap(nameMagic):
		r.big = true
	case dataMagic, swap(dataMagic):
		if t.Version == 0 {
			return "", 0, true
		}
		fallthrough
	default:
		s.errorf("%s:not a gcfn stream\n", stream)
		return "", 0, false
	}
	v := Version(r.word())
	if v.Major() == 0 || t.Version != 0 && v.Major() != t.Version.Major() {
		s.errorf("%s:incorrect gcov version %d vs %d \n", stream, uint32(v), uint32(t.Version))
		return "", 0, false
	}
	r.bytes = v.byteLengths()
	if name = string(r.text()); name == "" || r.err != nil {
		s.errorf("%s:no filename in gcfn stream\n", stream)
		return "", 0, false
	}
	return name, r.pos, true
}

// decodePart reads data, which end with a tag of 0; what follows is in Trailer.
func (t *tool) decodePart(stream string, b []byte, at int, s *said) *Counts {
	c, err := ReadCounts(b)
	switch {
	case c == nil:
		s.errorf("%s:not a gcov data file\n", stream)
	case t.Version != 0 && c.Version.Major() != t.Version.Major():
		s.errorf("%s:incorrect gcov version %d vs %d \n", stream, uint32(c.Version), uint32(t.Version))
	case err != nil:
		s.errorf("%s: data %v; the rest of the stream, from offset %#x, is left out\n", stream, err, at)
	case len(c.Trailer) < 4:
		s.errorf("%s: the data at offset %#x are cut off and left out\n", stream, at)
	default:
		if t.verbose {
			for i := range c.Functions {
				fmt.Fprintf(&s.out, "tag one function id=%d\n", int32(c.Functions[i].Ident))
			}
		}
		return c
	}
	return nil
}

// notesByStamp finds all notes below dir and tells where their data belong.
func notesByStamp(dir string) map[uint32]string {
	found := make(map[uint32]string)
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		stem, ok := strings.CutSuffix(path, ".gcno")
		if err != nil || !ok || !e.Type().IsRegular() {
			return nil
		}
		f, err := input.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		var head [12]byte
		if _, err := io.ReadFull(f, head[:]); err == nil {
			r := reader{b: head[:]}
			r.magic(notesMagic, "notes")
			r.word()
			if stamp := r.word(); r.err == nil {
				found[stamp] = stem + ".gcda"
			}
		}
		return nil
	})
	return found
}

// mergeParts adds the parts of a stream to the files that they belong to.
func (t *tool) mergeParts(parts []streamPart, weights []uint32) int {
	var jobs []*mergeJob
	byName := make(map[string]*mergeJob)
	for _, p := range parts {
		j := byName[p.name]
		if j == nil {
			j = &mergeJob{tool: t, name: p.name, weights: weights, truncates: true}
			byName[p.name] = j
			jobs = append(jobs, j)
			if b, err := input.ReadFile(p.name, input.MostData); err == nil {
				f := &mergeFile{}
				if c := t.decode(p.name, b, p.counts, &f.read); c != nil {
					j.add(c, f, weight(weights, 0))
				}
				t.say(&f.read)
			}
		}
	}
	for _, p := range parts {
		f := &mergeFile{dir: 1}
		byName[p.name].add(p.counts, f, weight(weights, 1))
		t.say(&f.merged)
	}
	t.finish(jobs)
	if len(jobs) == 0 {
		if t.verbose {
			fmt.Fprintln(t.Stdout, "no profile files were merged")
		}
		if t.Version == 0 {
			fmt.Fprintln(t.Stderr, "footfall: the stream has no data that can be used")
			return 1
		}
		return 0
	}
	status := 0
	for _, j := range jobs {
		if err := writeData(j.name, j.counts.Encode()); err != nil {
			fmt.Fprintf(t.Stderr, "libgcov profiling error:%s:Cannot open\n", j.name)
			status = 1
		}
	}
	if t.Version != 0 {
		return 0
	}
	return status
}

// writeData writes a data file and makes its directory where that is missing.
func writeData(name string, b []byte) error {
	err := output.WriteBytes(name, b)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(name), 0o777); err == nil {
			err = output.WriteBytes(name, b)
		}
	}
	return err
}

func readAll(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	return io.ReadAll(r)
}

// systemError is the text of the C library for an error.
func systemError(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		s := errno.Error()
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return err.Error()
}
