package profile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"footfall/binary"
	"footfall/compile/instrument"
	"footfall/formats/perfdata"
	"footfall/input"
)

// Files are files with profiles, and the program that gmon.out files need.
type Files struct {
	// Notes say which files were found for a program that was named alone.
	Notes []string

	program string
	gmons   []string
	others  []*Profile
	event   string
	owners  *input.Owners
}

// IsProgram tells whether a file is a program or library, rather than a profile.
func IsProgram(name string) bool {
	b, err := head(name)
	return err == nil && isELF(b)
}

func isPerfData(name string) bool {
	b, err := head(name)
	return err == nil && perfdata.Is(b)
}

// ReadFiles reads files of any kind: counts files, gmon.out, perf's, pprof's, and
// programs. event is the one to show of perf's, "" to choose. owners are told whose
// the files are, nil for nobody.
func ReadFiles(names []string, event string, owners *input.Owners) (*Files, error) {
	f := &Files{event: event, owners: owners}
	for _, name := range names {
		if err := f.add(name); err != nil {
			return nil, err
		}
	}
	if f.program != "" && len(f.gmons)+len(f.others) == 0 {
		if err := f.search(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *Files) add(name string) error {
	if name == "-" {
		return f.addStandardInput()
	}
	if member := filepath.Join(name, perfMember); isPerfData(member) {
		name = member
	}
	b, err := head(name)
	if err != nil {
		return err
	}
	switch {
	case f.event != "" && !perfdata.Is(b):
		return fmt.Errorf("--event is for files of perf, and %s is none", name)
	case isELF(b):
		if f.program != "" {
			return fmt.Errorf("%s and %s are both programs: show one at a time", f.program, name)
		}
		f.program = name
		program, err := f.owners.Open(name) // its debug information names sources
		if err != nil {
			return err
		}
		program.Close()
	case IsGmon(b):
		f.gmons = append(f.gmons, name)
	case perfdata.Is(b):
		p, err := readPerfData(f.owners, name, f.event)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.others = append(f.others, p)
	default:
		b, err := readWhole(f.owners, name)
		if err != nil {
			return err
		}
		p, err := decode(b, f.owners)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.others = append(f.others, p)
	}
	return nil
}

// addStandardInput adds what comes from a pipe, such as of "perf record -o -". It is
// put into a file first: perf's are read twice.
func (f *Files) addStandardInput() error {
	file, err := os.CreateTemp("", "footfall-*")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	if _, err := io.Copy(file, input.Limit(os.Stdin)); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if err := f.add(fmt.Sprintf("/proc/self/fd/%d", file.Fd())); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	return nil
}

// head returns the first bytes of a file.
func head(name string) ([]byte, error) {
	file, err := input.OpenGiven(name)
	if errors.Is(err, syscall.EISDIR) {
		return nil, fmt.Errorf("%s is a directory: name the files in it", name)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b := make([]byte, 8)
	n, err := file.Read(b)
	if n == 0 {
		if err == io.EOF {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b[:n], nil
}

// readWhole reads a file that is read at once.
func readWhole(owners *input.Owners, name string) ([]byte, error) {
	file, err := owners.OpenGiven(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return input.ReadAll(file, name, mostWhole())
}

var errUnknownFile = errors.New("no profile: neither a counts file (footfall.PID.counts), nor a gmon.out, nor perf's perf.data, nor a profile of pprof's format, nor a program")

// decode reads a counts file or a profile of pprof's format.
func decode(b []byte, owners *input.Owners) (*Profile, error) {
	if !IsCounts(b) {
		p, err := FromPprof(b)
		if err != nil && !errors.Is(err, errOtherValues) {
			return nil, errUnknownFile
		}
		return p, err
	}
	c, err := instrument.ReadCounts(b)
	if err != nil {
		if c == nil || len(c.Images) == 0 {
			return nil, err
		}
		p, convertErr := FromCounts(c, owners)
		if convertErr != nil {
			return nil, err
		}
		p.Notes = append(p.Notes, fmt.Sprintf("the file is damaged, what comes before is shown: %v", err))
		return p, nil
	}
	return FromCounts(c, owners)
}

// search looks in the working directory for what the program wrote.
func (f *Files) search() error {
	names, err := filepath.Glob("footfall.*.counts")
	if err != nil {
		return err
	}
	id, older := buildID(f.program), ""
	path, _ := filepath.Abs(f.program)
	for _, name := range names {
		b, err := readWhole(f.owners, name)
		if err != nil {
			continue // of another user
		}
		c, err := instrument.ReadCounts(b)
		if err != nil {
			continue
		}
		if id == "" || !slices.ContainsFunc(c.Images, func(im *instrument.CountedImage) bool { return im.BuildID == id }) {
			if slices.ContainsFunc(c.Images, func(im *instrument.CountedImage) bool { return im.Path == path }) {
				older = name
			}
			continue
		}
		if err := f.add(name); err != nil {
			return err
		}
		f.Notes = append(f.Notes, "shown: "+name)
	}
	if b, err := head("gmon.out"); err == nil && IsGmon(b) && len(f.others) == 0 {
		f.gmons = append(f.gmons, "gmon.out")
		f.Notes = append(f.Notes, "shown: gmon.out")
	}
	if len(f.gmons)+len(f.others) == 0 && older != "" {
		return fmt.Errorf("%s has been built again since it wrote %s: run it again, or name that file to see it", f.program, older)
	}
	if len(f.gmons)+len(f.others) == 0 {
		return fmt.Errorf("%s: no counts file of it and no gmon.out here; to run and sample it: footfall profile -- %s", f.program, shellPath(f.program))
	}
	return nil
}

func shellPath(name string) string {
	if filepath.Base(name) == name {
		return "./" + name
	}
	return name
}

func buildID(program string) string {
	f, err := input.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	e, err := binary.Open(f)
	if err != nil {
		return ""
	}
	return e.BuildID()
}

// Profile adds up what is in the files.
func (f *Files) Profile() (*Profile, error) {
	all := slices.Clone(f.others)
	if len(f.gmons) > 0 {
		p, err := f.gmon()
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return Merge(all)
}

func (f *Files) gmon() (*Profile, error) {
	if f.program == "" {
		return nil, fmt.Errorf("%s: name the program that wrote it, too: the file has addresses only", f.gmons[0])
	}
	size := 0
	if file, err := input.Open(f.program); err == nil {
		if e, err := binary.Open(file); err == nil {
			size = e.PointerSize()
		}
		file.Close()
	}
	var sum *Gmon
	for _, name := range f.gmons {
		b, err := readWhole(f.owners, name)
		if err != nil {
			return nil, err
		}
		g, err := ReadGmon(b, size)
		if err == nil && sum != nil {
			err = sum.Add(g)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if sum == nil {
			sum = g
		}
	}
	p, err := sum.Profile(f.program, f.owners)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.gmons[0], err)
	}
	return p, nil
}
