package tool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"footfall/formats/gcov"
	"footfall/formats/gcov/getopt"
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
	counts *gcov.Counts
}

// mergeStream adds counts that a program without files has sent: for each
// object its name and its data, back to back.
func (t *tool) mergeStream(args []string) int {
	var weights []uint32
	objects := "."
	g := getopt.Parser{Prog: t.command("merge-stream"), Short: "vw:", Long: []getopt.Option{getopt.Flag("verbose", 'v'), getopt.Value("weight", 'w')}, Stderr: t.Stderr, Args: args}
	if t.Version == 0 {
		g.Short += "o:"
		g.Long = append(g.Long, getopt.Flag("exact", 'e'), getopt.Value("object-directory", 'o'))
	}
	for opt, arg := g.Next(); opt != 0; opt, arg = g.Next() {
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
	if len(g.Operands) > 1 {
		return t.misused("merge-stream")
	}
	name, b, owned, err := "<stdin>", []byte(nil), (*os.File)(nil), error(nil)
	if len(g.Operands) == 1 && !(t.Version == 0 && g.Operands[0] == "-") {
		name = g.Operands[0]
		if owned, err = input.Open(name); err == nil {
			defer owned.Close()
			b, err = input.ReadAll(owned, name, input.MostData)
		}
	} else {
		owned, _ = t.Stdin.(*os.File)
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
	status := 0
	merge := func() error {
		status = t.mergeParts(t.splitStream(name, b, objects), weights)
		return nil
	}
	if owned == nil {
		_ = merge()
		return status
	}
	// The stream says where files are written: for root only where its owner could.
	if err := input.AsOwner(owned, merge); err != nil {
		fmt.Fprintf(t.Stderr, "footfall: %s: with the rights of its owner: %v\n", name, err)
		return 1
	}
	return status
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
	r := gcov.LooseReader{B: b, Order: binary.LittleEndian}
	switch r.Word() {
	case nameMagic:
	case bits.ReverseBytes32(nameMagic):
		r.Order = binary.BigEndian
	case gcov.DataMagic, bits.ReverseBytes32(gcov.DataMagic):
		if t.Version == 0 {
			return "", 0, true
		}
		fallthrough
	default:
		s.errorf("%s:not a gcfn stream\n", stream)
		return "", 0, false
	}
	v := gcov.Version(r.Word())
	if v.Major() == 0 || t.Version != 0 && v.Major() != t.Version.Major() {
		s.errorf("%s:incorrect gcov version %d vs %d \n", stream, uint32(v), uint32(t.Version))
		return "", 0, false
	}
	r.Bytes = v.ByteLengths()
	if name = r.Text(); name == "" {
		s.errorf("%s:no filename in gcfn stream\n", stream)
		return "", 0, false
	}
	return name, r.Pos, true
}

// decodePart reads data, which end with a tag of 0; what follows is in Trailer.
func (t *tool) decodePart(stream string, b []byte, at int, s *said) *gcov.Counts {
	c, err := gcov.ReadCounts(b)
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
		if _, err := io.ReadFull(f, head[:]); err == nil && gcov.IsMagic(head[:], gcov.NotesMagic) {
			order := binary.ByteOrder(binary.LittleEndian)
			if order.Uint32(head[:]) != gcov.NotesMagic {
				order = binary.BigEndian
			}
			found[order.Uint32(head[8:])] = stem + ".gcda"
		}
		return nil
	})
	return found
}

// mergeParts adds the parts of a stream to the files that they belong to.
func (t *tool) mergeParts(parts []streamPart, weights []uint32) int {
	var jobs []*mergeJob
	byName := make(map[string]*mergeJob)
	status := 0
	for _, p := range parts {
		if _, known := byName[p.name]; known {
			continue
		}
		j := &mergeJob{tool: t, name: p.name, weights: weights, truncates: true}
		byName[p.name] = j
		jobs = append(jobs, j)
		b, err := input.ReadFile(p.name, input.MostData)
		switch {
		case err == nil && len(b) > 0:
			f := &mergeFile{}
			if c := t.decode(p.name, b, p.counts, &f.read); c != nil {
				j.add(c, f, weight(weights, 0))
			}
			t.say(&f.read)
			if gcov.IsMagic(b, gcov.DataMagic) {
				break
			}
			fallthrough // it is something else, and stays
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			if err != nil {
				fmt.Fprintf(t.Stderr, "libgcov profiling error:%s:Cannot open\n", p.name)
			}
			byName[p.name], jobs, status = nil, jobs[:len(jobs)-1], 1
		}
	}
	for _, p := range parts {
		if j := byName[p.name]; j != nil {
			f := &mergeFile{dir: 1}
			j.add(p.counts, f, weight(weights, 1))
			t.say(&f.merged)
		}
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
	b, err := io.ReadAll(io.LimitReader(r, input.MostData+1))
	if err == nil && len(b) > input.MostData {
		err = syscall.EFBIG
	}
	return b, err
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
