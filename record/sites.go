package record

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"footfall/hook/patch"
	"footfall/output"
	"footfall/proc"
	"footfall/trace"
)

// An await says for what is waited where nothing fits.
type await int

// Awaits.
const (
	awaitNothing await = iota
	awaitNamed         // libraries that patterns name
	awaitAll           // any library, of a program that loads some
)

// noSites tells that no function has room for a jump.
type noSites struct{ error }

// sites finds and selects those of the process, now and, by what it returns
// besides, of libraries that are loaded later. There are none, and no error,
// where patterns are for libraries that are awaited.
func (o *Options) sites(p *proc.Process, only []string, await await, stderr io.Writer) ([]*patch.Site, *libraries, error) {
	chosen, err := newSelection(append(slices.Clone(o.Functions), only...), o.Notrace, o.GraphFrom, o.Args)
	if err != nil {
		return nil, nil, output.UsageError(err)
	}
	modules, problem := patch.OpenModules(p)
	l := &libraries{p: p, Modules: modules, selection: chosen, described: make(map[*patch.Site][]trace.Argument), said: make(map[string]bool), stderr: stderr}
	sites, all, unusable, err := l.sites(modules.All())
	awaited := l.awaited()
	switch {
	case err != nil:
	case len(sites) > 0, await != awaitNothing && len(awaited) > 0 && (all > 0 || len(awaited) == len(l.selection.take)), await == awaitAll && l.mayCome():
		l.sayUnfit(awaited)
		return sites, l, nil
	case all > 0:
		err = fmt.Errorf("process %d: none of its %d functions that can be traced fits; --list lists them", p.PID, all)
	case unusable > 0:
		err = fmt.Errorf("process %d: its calls of mcount are no nops: compile with -mnop-mcount too", p.PID)
	case narrow(modules):
		err = fmt.Errorf("process %d: a program of 32 bits, into which no code can be put", p.PID)
	default:
		err = fmt.Errorf("process %d: no functions that can be traced: compile with -fpatchable-function-entry=5", p.PID)
		if problem != nil {
			err = fmt.Errorf("%w; %w", err, problem)
		}
		if errors.Is(problem, proc.ErrExited) {
			l.Close()
			return nil, nil, fmt.Errorf("process %d: it has no memory: a thread of the kernel, or a process that has ended, or whose first thread has", p.PID)
		}
	}
	l.Close()
	return nil, nil, &noSites{err}
}

// mayCome tells whether patterns that fit nothing now may fit a library which the program
// loads later.
func (l *libraries) mayCome() bool {
	if len(l.selection.take)+len(l.selection.roots) == 0 || narrow(l.Modules) || !l.loads() {
		return false
	}
	w := &probes{p: l.p, modules: l.Modules}
	w.aim(l.selection)
	return len(w.choose(l.All())) == 0
}

// loads tells whether the program loads libraries.
func (l *libraries) loads() bool { return slices.ContainsFunc(l.All(), (*patch.Image).LoadsLibraries) }

// narrow tells whether the program is one of 32 bits.
func narrow(modules *patch.Modules) bool {
	return slices.ContainsFunc(modules.All(), func(i *patch.Image) bool { return i.IsProgram() && i.Narrow() })
}

// awaited returns patterns for libraries that are not loaded.
func (l *libraries) awaited() []patch.Pattern {
	return slices.DeleteFunc(slices.Clone(l.selection.take), func(p patch.Pattern) bool {
		return p.NamesLibrary() == "" || slices.ContainsFunc(l.All(), func(i *patch.Image) bool { return p.In(i.Path) })
	})
}

// sayUnfit says which patterns fit nothing, of --notrace none.
func (l *libraries) sayUnfit(awaited []patch.Pattern) {
	for _, p := range awaited {
		fmt.Fprintf(l.stderr, "footfall: %s is not loaded yet\n", p.NamesLibrary())
	}
	yet := ""
	if l.loads() {
		yet = " yet"
	}
	say := func(flag string, p patch.Pattern) {
		fits := func(i *patch.Image) bool {
			sites, _, _ := i.Sites()
			return slices.ContainsFunc(sites, func(s *patch.Site) bool { return p.Matches(l.p, s) })
		}
		if p.NamesLibrary() == "" && !slices.ContainsFunc(l.All(), fits) {
			fmt.Fprintf(l.stderr, "footfall: no function that can be traced fits %s '%s'%s\n", flag, p, yet)
		}
	}
	for _, p := range l.selection.take {
		if !slices.ContainsFunc(l.selection.arguments, func(a argumentsOf) bool { return a.pattern == p }) {
			say("-f", p)
		}
	}
	for _, p := range l.selection.roots {
		say("--graph-from", p)
	}
	for _, a := range l.selection.arguments {
		say("--args", a.pattern)
	}
}

// libraries are those of a process, and what to trace of them.
type libraries struct {
	*patch.Modules
	p         *proc.Process
	selection selection
	described map[*patch.Site][]trace.Argument
	stderr    io.Writer
	paused    bool            // nothing is to be switched on
	said      map[string]bool // paths of libraries that were said to be loaded

	gone func([]*patch.Image) // called when images have been unloaded, before others can be in their place

	// roomless watches functions of libraries that have no room, and returns how many.
	roomless func([]*patch.Image) (int, error)

	followsChains bool // what chains need besides is to be switched on, too
	next          time.Time
}

// sites selects sites of images. all is the number of those that there are,
// unusable that of entries without room.
func (l *libraries) sites(images []*patch.Image) (sites []*patch.Site, all, unusable int, err error) {
	for _, i := range images {
		found, n, err := i.Sites()
		if err != nil {
			return nil, 0, 0, err
		}
		all, unusable = all+len(found), unusable+n
		for _, s := range found {
			if l.selection.takes(l.p, s) {
				l.describeArguments(s)
				sites = append(sites, s)
			}
		}
	}
	return sites, all, unusable, nil
}

// undescribed returns the functions of images through which chains can only be
// followed by tracing them.
func (l *libraries) undescribed(images []*patch.Image, stderr io.Writer) (all []patch.Undescribed) {
	if !l.followsChains {
		return nil
	}
	for _, i := range images {
		found, err := i.Undescribed(l.p)
		if err != nil {
			fmt.Fprintf(stderr, "footfall: callers in %v\n", err)
		}
		all = append(all, found...)
	}
	return all
}

// update switches sites on of libraries that have been loaded meanwhile, and
// says so; it returns whether there are any. It is to be called often: it looks
// only now and then, and when a thread waits for that.
func (l *libraries) update(session *patch.Session, stderr io.Writer) bool {
	begin := time.Now()
	notice, waits := session.Noticed()
	if !waits && begin.Before(l.next) {
		return false
	}
	// A large memory map must not keep the process from changing it.
	defer func() { l.next = time.Now().Add(max(50*time.Millisecond, 20*time.Since(begin))) }()
	fresh, n, err := l.follow(session)
	session.Answer(notice)
	names := imageNames(fresh)
	if err != nil && l.p.Check() == nil {
		fmt.Fprintf(stderr, "footfall: the functions of %s, loaded meanwhile, are not traced: %v\n", names, err)
	} else if n > 0 && !l.told(fresh) {
		fmt.Fprintf(stderr, "footfall: %s loaded: tracing %s\n", names, output.Count(n, "more function", "more functions"))
	}
	return n > 0
}

// imageNames are the names of files, for a message.
func imageNames(images []*patch.Image) string {
	var names []string
	for _, i := range images {
		names = append(names, filepath.Base(i.Path))
	}
	return strings.Join(names, ", ")
}

// sayUnanswered says, at the end, what may be missing.
func (l *libraries) sayUnanswered(session *patch.Session) {
	if n := session.Unanswered; n > 0 {
		fmt.Fprintf(l.stderr, "footfall: %s loaded or unloaded while footfall was busy: the first calls may be missing\n", output.Count(n, "time libraries were", "times libraries were"))
	}
}

// follow looks for images that have come, and returns them and how many of their sites
// it has switched on.
func (l *libraries) follow(session *patch.Session) (fresh []*patch.Image, n int, err error) {
	var before []*patch.Image
	if l.gone != nil {
		before = l.Present()
	}
	for _, image := range session.Gone() {
		l.Forget(image)
	}
	fresh, changed, _ := l.Look() // some files are not programs
	if !changed {
		return nil, 0, nil
	}
	if l.gone != nil {
		after := l.Present()
		l.gone(slices.DeleteFunc(before, func(i *patch.Image) bool { return slices.Contains(after, i) }))
	}
	sites, _, _, err := l.sites(fresh)
	if err != nil {
		return fresh, 0, err
	}
	watched, problem := 0, error(nil)
	if l.roomless != nil {
		watched, problem = l.roomless(fresh)
	}
	if problem != nil { // also if the process has ended by now
		fmt.Fprintf(l.stderr, "footfall: the functions of %s, loaded meanwhile, are not traced: %v\n", imageNames(fresh), problem)
	} else if len(sites)+watched == 0 {
		l.sayRoomless(fresh)
	}
	if l.paused {
		sites, watched = nil, 0
	}
	n, err = session.Add(sites, l.undescribed(fresh, l.stderr)...)
	return fresh, n + watched, err
}

// told tells whether all of the images have been said to be loaded before, and notes
// that they have.
func (l *libraries) told(images []*patch.Image) bool {
	all := true
	for _, i := range images {
		all = all && l.said[i.Path]
		l.said[i.Path] = true
	}
	return all
}

// sayRoomless says which images were awaited for nothing.
func (l *libraries) sayRoomless(images []*patch.Image) {
	for _, i := range images {
		if slices.ContainsFunc(l.selection.take, func(p patch.Pattern) bool { return p.NamesLibrary() != "" && p.In(i.Path) }) && !l.told([]*patch.Image{i}) {
			fmt.Fprintf(l.stderr, "footfall: %s loaded: it has no function that fits\n", filepath.Base(i.Path))
		}
	}
}

// A selection says which sites are traced.
type selection struct {
	take, leave, roots []patch.Pattern
	arguments          []argumentsOf
}

func newSelection(take, leave, roots, arguments []string) (s selection, err error) {
	parse := func(texts []string) (patterns []patch.Pattern) {
		for _, text := range texts {
			p, parseErr := patch.ParsePattern(text)
			err = errors.Join(err, parseErr)
			patterns = append(patterns, p)
		}
		return patterns
	}
	s = selection{take: parse(take), leave: parse(leave), roots: parse(roots)}
	for _, text := range arguments {
		a, parseErr := parseArguments(text)
		err = errors.Join(err, parseErr)
		s.arguments = append(s.arguments, a)
		if len(s.take) > 0 {
			s.take = append(s.take, a.pattern)
		}
	}
	return s, err
}

func (s selection) takes(p *proc.Process, site *patch.Site) bool {
	fits := func(patterns []patch.Pattern) bool {
		return slices.ContainsFunc(patterns, func(pattern patch.Pattern) bool { return pattern.Matches(p, site) })
	}
	if fits(s.leave) {
		return false
	}
	site.Root = fits(s.roots)
	return len(s.take) == 0 || site.Root || fits(s.take)
}

// listTarget is --list.
func (o *Options) listTarget(target string, only []string) error {
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	return o.printSites(p, only)
}

func (o *Options) printSites(p *proc.Process, only []string) error {
	w := o.Stdout
	sites, libraries, err := o.sites(p, only, awaitNothing, o.Stderr)
	if none := (*noSites)(nil); errors.As(err, &none) {
		return o.printProbes(w, p, only, none)
	}
	if err != nil {
		return err
	}
	defer libraries.Close()
	listSites(w, p, sites)
	return nil
}

func listSites(w io.Writer, p *proc.Process, sites []*patch.Site) {
	fmt.Fprintf(w, "%-14s %4s %7s  %-40s %s\n", "ADDRESS", "ROOM", "SIZE", "FUNCTION", "SOURCE")
	for _, s := range sites {
		file, line := s.Source(p)
		source := filepath.Base(s.Image.Path)
		if file != "" {
			source = fmt.Sprintf("%s:%d", file, line)
		}
		fmt.Fprintf(w, "%-14x %4d %7d  %-40s %s\n", s.Addr, s.Site.Size, s.Function.Size, output.Printable(s.Name()), output.Printable(source))
	}
}
