package collect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"footfall/collect/find"
	"footfall/coverage"
	"footfall/formats/gocover"
	"footfall/input"
	"footfall/output"
	"footfall/report/source"
)

// This file collects coverage of programs of Go.

// GoStats are what was found of programs of Go.
type GoStats struct {
	Programs, Runs int
	Missing        int // sources that are not there
}

// A goProgram is meta-data and where they come from.
type goProgram struct {
	*gocover.Pod
	file find.GoFile
	runs int
}

type goPrograms struct {
	options  *Options
	programs []*goProgram
	byHash   map[gocover.Hash]*goProgram
	modules  gocover.Modules
	problems []source.Problem
	stats    GoStats
}

// goPrograms adds what there is of programs of Go.
func (r *Result) goPrograms(sum *coverage.Sum) {
	if len(r.Objects.Go) == 0 {
		return
	}
	g := goPrograms{options: &r.options, byHash: make(map[gocover.Hash]*goProgram)}
	var counters []find.GoFile
	texts := make(map[string][]byte)
	for _, f := range r.Objects.Go {
		b := f.Bytes
		if b == nil {
			var err error
			if b, _, err = r.options.Sources.Owners.ReadInto(nil, f.Name, min(mostProfile, input.Most())); err != nil {
				g.problem(unreadableFile, f.Name, err)
				continue
			}
		}
		if gocover.IsMeta(b) || !gocover.IsCounters(b) && gocover.IsMetaName(f.Name) {
			g.meta(f, b)
			continue
		}
		counters = append(counters, f)
		if f.Bytes == nil && len(b) <= mostKept { // large ones are read again, one at a time
			texts[f.Name] = b
		}
	}
	for _, f := range counters {
		g.counters(f, texts[f.Name])
		delete(texts, f.Name)
	}
	set := g.collect()
	r.take(sum, set)
	r.Go = g.stats
	r.Problems = append(r.Problems, g.problems...)
}

const (
	unreadableFile = "files that cannot be read"
	mostKept       = 1 << 20
)

func (g *goPrograms) problem(kind, file string, err error) {
	problem := source.NewProblem(kind, file, source.WithoutPath(err))
	if format, is := err.(*gocover.FormatError); is {
		problem.Offset, problem.Err = format.Offset, format.Err
	}
	g.problems = append(g.problems, problem)
}

func (g *goPrograms) meta(f find.GoFile, b []byte) {
	if len(b) == 0 {
		g.problem(source.Damaged, f.Name, errors.New("empty, but it is to be the meta-data of a program of Go: was the disk full?"))
		return
	}
	m, err := gocover.ReadMeta(b)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		g.problem(source.Damaged, f.Name, err)
		return
	}
	if g.byHash[m.Hash] != nil {
		return // several directories have it
	}
	p := &goProgram{Pod: gocover.NewPod(m), file: f}
	g.byHash[m.Hash] = p
	g.programs = append(g.programs, p)
}

func (g *goPrograms) counters(f find.GoFile, b []byte) {
	if b == nil {
		b = f.Bytes
	}
	if b == nil {
		var err error
		if b, _, err = g.options.Sources.Owners.ReadInto(nil, f.Name, min(mostProfile, input.Most())); err != nil {
			g.problem(unreadableFile, f.Name, err)
			return
		}
	}
	c, err := gocover.ReadCounters(b)
	if err != nil {
		g.problem(source.Damaged, f.Name, err)
	}
	if c == nil || len(c.Segments) == 0 {
		return
	}
	p := g.byHash[c.Hash]
	if p == nil {
		g.problem(source.NoNotes, f.Name, fmt.Errorf("the meta-data of its program, %s, are neither beside it nor in what was named: the program writes them with the first run into a directory", gocover.MetaName(c.Hash)))
		return
	}
	if f.Since != nil {
		if before, err := gocover.ReadCounters(f.Since); err == nil && before.Hash == c.Hash {
			c.Subtract(p.Mode, before)
		}
	}
	p.runs += len(c.Segments)
	if err := p.Add(c); err != nil {
		g.problem(source.Damaged, f.Name, err)
	}
}

// locator says which file a source of a program is.
func (g *goPrograms) locator(p *goProgram) func(name string) (string, bool) {
	locate := GoLocator(g.options.Sources, &g.modules, p.file)
	return func(name string) (path string, keep bool) {
		if path, keep = locate(name); keep {
			g.options.Sources.NoteBuilt(path, input.Modified(p.file.Name))
		}
		return path, keep
	}
}

// GoLocator says which file a source is that the meta-data of a program name, which are in a file or of a process, and
// whether it is wanted.
func GoLocator(sources *source.Sources, modules *gocover.Modules, meta find.GoFile) func(name string) (path string, keep bool) {
	starts := slices.Clone(meta.Starts)
	if meta.Bytes == nil {
		starts = append(starts, filepath.Dir(meta.Name))
	}
	starts = append(starts, sources.Root(), ".")
	return func(name string) (path string, keep bool) {
		dir, relative := "", name
		if !sources.Maps(name) {
			dir, relative = modules.Locate(name, starts, input.IsFile)
		}
		if meta.Root != "" {
			if rest, inside := source.Below(dir, meta.Root); inside {
				dir = "/" + rest
			}
		}
		return sources.Resolve(dir, relative)
	}
}

func (g *goPrograms) collect() *coverage.Set {
	var pods []*gocover.Pod
	locate := make(map[*gocover.Pod]func(string) (string, bool))
	for _, p := range g.programs {
		pods = append(pods, p.Pod)
		locate[p.Pod] = g.locator(p)
		g.stats.Runs += p.runs
		if p.Overflows {
			g.problem(source.OtherName, p.file.Name, errors.New("counts of more than 32 bits: they are at least as large as is said"))
		}
	}
	g.stats.Programs = len(pods)
	sources := g.options.Sources
	set, stats := gocover.Collect(pods, gocover.CollectOptions{
		Source: func(p *gocover.Pod, name string) (string, bool) { return locate[p](name) },
		Read: func(path string) *gocover.Source {
			text, err := sources.Read(path)
			if err != nil || text == nil {
				return nil
			}
			return gocover.NewSource(text)
		},
	})
	g.stats.Missing = len(stats.Missing)
	for _, path := range stats.Missing {
		g.problem(source.NoSource, path, errors.New("the source is not there: its lines between statements count as code; run footfall in the module's directory, or say --path-map MODULE=DIR"))
	}
	for _, path := range stats.Differ {
		sources.NoteDiffers(path)
	}
	for _, path := range stats.TooLong {
		g.problem(source.Damaged, path, errors.New("it is to have more lines than meta-data of this size are likely to be for: the rest is left out"))
	}
	return set
}

// nothingOfGo says why programs of Go give nothing.
func (r *Result) nothingOfGo(where string) error {
	if r.Go.Programs == 0 {
		return fmt.Errorf("nothing to report: no meta-data (covmeta) of programs of Go that can be used in %s", where)
	}
	return cmp.Or(r.nothingLeft(), fmt.Errorf("nothing to report: no statements in the %s of Go in %s", output.Plural(r.Go.Programs, "program"), where))
}

// sayGo tells what a reader of the coverage of programs of Go should know.
func (r *Result) sayGo(w io.Writer) {
	if r.Go.Programs > 0 && r.Go.Runs == 0 {
		fmt.Fprintf(w, "footfall: no counters (covcounters) of %s of Go: nothing has run yet, or it did not end by itself\n", output.Plural(r.Go.Programs, "program"))
	}
}
