package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"footfall/collect/find"
	"footfall/coverage"
	"footfall/formats/llvm"
	"footfall/input"
	"footfall/output"
	"footfall/report/source"
)

// This file collects source-based coverage: profiles and the binaries that they are of.

// ProfileStats are what was found of source-based coverage.
type ProfileStats struct {
	Profiles, Binaries int
	ByName             []string // profiles of which it is not known which binary counted
	LeftOut            []string // binaries that no profile is of
	Impossible         int      // functions with negative counts
	OldBitmaps         int      // functions whose MC/DC of LLVM 18 is left out, as there is that of others
}

// A profiled binary is one with the counts that are its own.
type profiled struct {
	find.Binary
	image llvm.Image
	used  bool
}

type profiles struct {
	options  *Options
	images   []profiled
	binaries []*llvm.Binary // of images
	shared   []sharedCounts
	reader   llvm.Reader
	problems []source.Problem
	stats    ProfileStats
	lost     bool // a profile could not be used: it may be of a binary that is left out
}

// sharedCounts are those of profiles of several binaries, which have the same build IDs: none if they do not tell.
type sharedCounts struct {
	ids []string
	sum *llvm.Sum
}

// profiles collects what objects has of source-based coverage.
func (o *Options) profiles(objects *find.Objects) (*coverage.Set, []source.Problem, ProfileStats) {
	p := profiles{options: o}
	p.readBinaries(objects.Binaries)
	for _, file := range objects.Profiles {
		p.read(file)
	}
	set := p.collect()
	return set, p.problems, p.stats
}

func (p *profiles) problem(kind, file string, err error) {
	problem := source.NewProblem(kind, file, source.WithoutPath(err))
	var format *llvm.FormatError
	if errors.As(err, &format) {
		problem.Offset, problem.Err = format.Offset, format.Err
		if _, direct := err.(*llvm.FormatError); !direct {
			problem.Offset, problem.Err = -1, err
		}
	}
	p.problems = append(p.problems, problem)
}

// readBinaries reads the mappings of binaries, in parallel.
func (p *profiles) readBinaries(files []find.Binary) {
	found := make([][]*llvm.Binary, len(files))
	failed := make([]error, len(files))
	reader := llvm.NewBinaryReader()
	coverage.Parallel(len(files), func(i int) {
		if found[i] = p.options.kept(files[i].Name); found[i] != nil {
			return
		}
		open := p.options.Sources.Owners.OpenGiven
		if files[i].Runs {
			open = p.options.Sources.Owners.OpenNamed
		}
		f, err := open(files[i].Name)
		if err != nil {
			failed[i] = err
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err == nil {
			if found[i], err = reader.Read(files[i].Name, f, info.Size(), ""); err == nil {
				p.options.keep(files[i].Name, info, found[i])
			}
		}
		failed[i] = err
	})
	for i, file := range files {
		if err := failed[i]; err != nil {
			p.problem(source.Damaged, file.Name, err)
		}
		dir, err := filepath.Abs(filepath.Dir(file.Name))
		if err != nil {
			dir = ""
		}
		for _, b := range found[i] {
			p.binaries = append(p.binaries, b)
			p.images = append(p.images, profiled{Binary: file, image: llvm.Image{
				Binary: b, Dir: source.Unrecorded(dir), Built: input.Modified(file.Name),
			}})
		}
	}
}

// mostCompared is with how many profiles before it in its file a profile is compared.
const mostCompared = 64

// mostProfile is the largest profile that is read.
const mostProfile = 1 << 30

// read adds the profiles of a file.
func (p *profiles) read(file find.Profile) {
	b := file.Bytes
	if b == nil {
		var err error
		if b, _, err = p.options.Sources.Owners.ReadInto(nil, file.Name, min(mostProfile, input.Most())); err != nil {
			p.lost = true
			p.problem("files that cannot be read", file.Name, err)
			return
		}
	}
	list, err := p.reader.Read(b)
	if err != nil {
		p.problem(source.Damaged, file.Name, err)
	}
	p.lost = p.lost || err != nil || len(b) == 0
	if len(b) == 0 {
		p.problem(source.EmptyProfile, file.Name, errors.New("empty: the program was killed, or ended by _exit, before it wrote its counts; footfall live reads them from programs that run"))
	}
	if file.Since != nil {
		// Unless the program has set its counters to zero since the reset.
		p.with(file, file.Since, "counts at the reset", list, func(own, before *llvm.Profile) { own.Subtract(before) })
	}
	if file.Inherited != nil {
		p.with(file, file.Inherited, "counts of parents", list, (*llvm.Profile).Inherits)
	}
	for i, profile := range list {
		if slices.ContainsFunc(list[max(0, i-mostCompared):i], profile.Includes) {
			p.problem(source.CountedTwice, file.Name, errors.New("it has several profiles, of which one includes the counts of another: a forked child that began with its parent's, or a program that wrote its counts before its end; what they share counts twice"))
			break
		}
	}
	for _, profile := range list {
		p.add(file, profile)
	}
}

// with does something to each profile of a file with its like of another reading, of which what says what it is.
func (p *profiles) with(file find.Profile, other []byte, what string, list []*llvm.Profile, do func(own, other *llvm.Profile)) {
	of, err := llvm.Read(other)
	if err != nil {
		p.problem(source.Damaged, file.Name, fmt.Errorf("%s: %w", what, err))
		return
	}
	for i := range min(len(list), len(of)) {
		do(list[i], of[i])
	}
}

func (p *profiles) add(file find.Profile, profile *llvm.Profile) {
	if profile.Flags&llvm.FlagIR != 0 {
		p.problem(source.NoBinary, file.Name, fmt.Errorf("%v for the optimiser (-fprofile-generate), which no source belongs to: compile with -fprofile-instr-generate -fcoverage-mapping", profile))
		return
	}
	p.stats.Profiles++
	var to *llvm.Sum
	i, how := p.pair(file, profile)
	if how != llvm.Unpaired {
		if p.images[i].image.Counts == nil {
			p.images[i].image.Counts = llvm.NewSum()
		}
		p.images[i].used = true
		to = p.images[i].image.Counts
	} else if !p.unpaired(file, profile) {
		return // of a binary that is not here: functions of its names in others are others
	} else {
		to = p.sharedBy(profile.BuildIDs)
	}
	others, err := to.Add(profile)
	if err != nil {
		p.problem(source.Damaged, file.Name, err)
	}
	for _, c := range others {
		p.problem(source.OtherProfile, file.Name, fmt.Errorf("function %s has another number of counters than in profiles before", output.Printable(c.Name)))
	}
}

// sharedBy is the sum of profiles of the same build IDs.
func (p *profiles) sharedBy(ids []string) *llvm.Sum {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, s := range p.shared {
		if slices.Equal(s.ids, ids) {
			return s.sum
		}
	}
	p.shared = append(p.shared, sharedCounts{ids, llvm.NewSum()})
	return p.shared[len(p.shared)-1].sum
}

// mayBeOf tells whether a profile of these build IDs may have counts of a binary: of one that it names, or that has no
// ID, or that the user has named if none of those that it names is here.
func (p *profiles) mayBeOf(ids []string, b *llvm.Binary, named bool) bool {
	if len(ids) == 0 || b.BuildID == "" || slices.Contains(ids, b.BuildID) {
		return true
	}
	return named && !slices.ContainsFunc(p.binaries, func(b *llvm.Binary) bool { return slices.Contains(ids, b.BuildID) })
}

// pair finds the binary of a profile. That of counters of a process is known, and must still be what runs.
func (p *profiles) pair(file find.Profile, profile *llvm.Profile) (int, llvm.Pairing) {
	if file.Binary == "" {
		return llvm.Pair(profile, p.binaries)
	}
	for i := range p.images {
		if p.images[i].Name == file.Binary {
			if _, how := llvm.Pair(profile, p.binaries[i:i+1]); how != llvm.Unpaired {
				return i, how
			}
		}
	}
	return -1, llvm.Unpaired
}

// unpaired takes a profile of which it is not known which binary counted: an indexed one, or a raw one whose binary
// is missing. It tells whether it may be of one that is here.
func (p *profiles) unpaired(file find.Profile, profile *llvm.Profile) bool {
	own := llvm.NewSum()
	_, _ = own.Add(profile.Clone())
	knows := false
	for i := range p.images {
		im := &p.images[i]
		if !p.mayBeOf(profile.BuildIDs, im.image.Binary, im.Named) {
			continue
		}
		if own.Knows(im.image.Binary) {
			im.used, knows = true, true
		}
	}
	missing := slices.DeleteFunc(slices.Clone(profile.BuildIDs), func(id string) bool {
		return slices.ContainsFunc(p.binaries, func(b *llvm.Binary) bool { return b.BuildID == id })
	})
	const name = "name it with --object FILE"
	switch {
	case file.Binary != "" && !slices.ContainsFunc(p.images, func(im profiled) bool { return im.Name == file.Binary }):
		// Why it could not be read has been said.
	case file.Binary != "":
		p.problem(source.NoBinary, file.Name, errors.New("the file of the program, or library, was rebuilt or removed since it was started: start it again"))
	case len(missing) > 0:
		p.problem(source.NoBinary, file.Name, fmt.Errorf("%v: the binary that counted, of build ID %s, is not here: %s", profile, missing[0], name))
	case !knows:
		p.problem(source.NoBinary, file.Name, fmt.Errorf("%v: no binary here has its functions: %s", profile, name))
	case profile.Format == llvm.Raw:
		p.stats.ByName = append(p.stats.ByName, file.Name)
	}
	return file.Binary == "" && (knows || len(profile.BuildIDs) == 0)
}

// collect makes the set.
func (p *profiles) collect() *coverage.Set {
	var images []llvm.Image
	for _, im := range p.images {
		if im.used || im.Named {
			images = append(images, im.image)
		} else {
			p.stats.LeftOut = append(p.stats.LeftOut, im.Name)
		}
	}
	if n := len(p.stats.LeftOut); p.lost && n > 0 {
		p.problem(source.NoBinary, p.stats.LeftOut[0], fmt.Errorf("left out, as no profile is of it, but some profiles are empty or cannot be read: these may be (%d such binaries)", n))
	}
	p.stats.Binaries = len(images)
	sources := p.options.Sources
	named := make(map[*llvm.Binary]bool)
	for _, im := range p.images {
		named[im.image.Binary] = im.Named
	}
	var shared []llvm.Shared
	for _, s := range p.shared {
		shared = append(shared, llvm.Shared{Sum: s.sum, Of: func(b *llvm.Binary) bool { return p.mayBeOf(s.ids, b, named[b]) }})
	}
	set, stats := llvm.Collect(images, llvm.CollectOptions{Source: sources.Resolve, Built: sources.NoteBuilt, Shared: shared})
	p.stats.Impossible, p.stats.OldBitmaps = stats.Impossible, stats.OldBitmaps
	for _, m := range stats.Mismatches {
		p.problem(source.OtherProfile, m.Binary, fmt.Errorf("function %s: the profiles have counts of that name, but of another build or program (its hash is %#x): it is left out", output.Printable(m.Name), m.Hash))
	}
	for _, d := range stats.Damaged {
		p.problem(source.Damaged, d.Binary, fmt.Errorf("mapping of function %s: %w", output.Printable(d.Name), d.Err))
	}
	return set
}

// A keptBinary is one that was read for an earlier look.
type keptBinary struct {
	info     fs.FileInfo
	binaries []*llvm.Binary
}

// kept returns what was read of a file before, nil if it is another one now.
func (o *Options) kept(name string) []*llvm.Binary {
	if o.Cache == nil {
		return nil
	}
	k, ok := o.Cache.binaries.Load(name)
	if !ok {
		return nil
	}
	info, err := input.Stat(name)
	if known := k.(keptBinary); err == nil && os.SameFile(info, known.info) && info.ModTime().Equal(known.info.ModTime()) && info.Size() == known.info.Size() {
		return known.binaries
	}
	return nil
}

func (o *Options) keep(name string, info fs.FileInfo, binaries []*llvm.Binary) {
	if o.Cache != nil {
		o.Cache.binaries.Store(name, keptBinary{info, binaries})
	}
}
