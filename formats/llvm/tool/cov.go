package tool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"footfall/formats/llvm"
	"footfall/input"
)

// A covering is a call of llvm-cov: what its commands have in common.
type covering struct {
	*Invocation
	objects, dirs   []string // dirs: where binaries are looked for by their build IDs
	profile, format string
	dir             string // where the compiler ran
	ignore          []*regexp.Regexp
	remaps          [][2]string
	demangler       []string
	names           []string
	nameRegexps     []*regexp.Regexp
	allowlists      []string
	allowed         []*regexp.Regexp // by the allowlists
	limits          []limit
	checkIDs        bool
	empty           bool // no profile: nothing ran
	bytes           bool // counts only say that something ran
	summaryOnly     bool
	columns         columns

	widestFile int      // of tables so far
	sources    []string // those that are named, as absolute paths
	hadSources bool     // some were
	coverage   *llvm.Coverage
	profiled   *llvm.Profile // what coverage was made of
	binaries   []*llvm.Binary
	demangled  map[string]string
	moved      map[string]string // where sources are, by recorded names
}

// A limit chooses functions by how much of them is covered.
type limit struct {
	lines, less bool // of lines or else regions; less than, or else more than
	percent     float64
}

// options are those of all commands, and some of one.
func (c *covering) options(own map[string]option) map[string]option {
	limited := func(name string, lines, less bool) option {
		var set bool
		var at float64
		o := percent(name, &at, &set)
		return option{value: func(s string) error {
			err := o.value(s)
			c.limits = append(c.limits, limit{lines, less, at})
			return err
		}}
	}
	all := map[string]option{
		"object": list(&c.objects), "instr-profile": text(&c.profile), "format": text(&c.format), "arch": ignored(), "dump": notHere("prints what helps to debug llvm-cov"),
		"dump-collected-paths": notHere("prints what helps to debug llvm-cov"), "dump-collected-objects": notHere("prints what helps to debug llvm-cov"),
		"debug-file-directory": list(&c.dirs), "debuginfod": {}, "check-binary-ids": {flag: &c.checkIDs}, "empty-profile": {flag: &c.empty},
		"path-equivalence": {value: c.remap}, "compilation-dir": text(&c.dir), "ignore-filename-regex": regexps(&c.ignore),
		"name": list(&c.names), "name-regex": regexps(&c.nameRegexps), "name-allowlist": list(&c.allowlists), "Xdemangler": list(&c.demangler),
		"region-coverage-lt": limited("region-coverage-lt", false, true), "region-coverage-gt": limited("region-coverage-gt", false, false),
		"line-coverage-lt": limited("line-coverage-lt", true, true), "line-coverage-gt": limited("line-coverage-gt", true, false),
		"use-color": {flag: &c.colors}, "num-threads": ignored(), "j": ignored(), "summary-only": {flag: &c.summaryOnly},
		"show-region-summary": {flag: &c.columns.regions}, "show-branch-summary": {flag: &c.columns.branches},
		"show-mcdc-summary": {flag: &c.columns.conditions}, "show-instantiation-summary": {flag: &c.columns.instances},
	}
	maps.Copy(all, own)
	return all
}

// start takes the arguments.
func (c *covering) start(args []string, own map[string]option) error {
	c.format, c.columns.regions, c.columns.branches = "text", true, true
	rest, err := c.parse(args, c.options(own))
	if err != nil {
		return err
	}
	c.colors = c.colors || c.format == "html" // then they cannot be turned off
	if c.profile == "" && !c.empty {
		return usageError("for the --instr-profile option: must be specified at least once!")
	}
	if len(rest) > 0 { // also beside -object
		c.objects, rest = append(rest[:1:1], c.objects...), rest[1:]
	}
	if len(c.objects) == 0 && len(c.dirs) == 0 {
		fmt.Fprintln(c.Stderr, "No filenames specified!")
		return saidError{}
	}
	if len(c.demangler) > 0 {
		if c.demangler[0], err = exec.LookPath(c.demangler[0]); err != nil {
			return c.message("No such file or directory: could not find the demangler!")
		}
	}
	for _, name := range rest {
		c.collect(name)
	}
	for _, name := range c.allowlists {
		found, err := c.readAllowlist(name)
		if err != nil {
			return err
		}
		c.allowed = append(c.allowed, found...)
	}
	return nil
}

// message is an error of llvm-cov, which begins with a capital letter up to LLVM 16.
func (c *covering) message(s string) error {
	if c.version() < 17 {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return words(s)
}

func (c *covering) warn(format string, args ...any) {
	c.colored(c.Stderr, red, "warning: "+fmt.Sprintf(format, args...)+"\n")
}

func (c *covering) remap(s string) error {
	from, to, ok := strings.Cut(s, ",")
	if !ok || from == "" || to == "" {
		return fmt.Errorf("-path-equivalence: invalid argument '%s', must be in format 'from,to'", s)
	}
	c.remaps = append(c.remaps, [2]string{from, to})
	return nil
}

func (c *covering) ignored(name string) bool {
	return slices.ContainsFunc(c.ignore, func(re *regexp.Regexp) bool { return re.MatchString(name) })
}

// collect takes a source, or all below a directory.
func (c *covering) collect(name string) {
	add := func(name string) {
		abs, err := filepath.Join(c.Dir, name), error(nil)
		if c.Dir == "" || filepath.IsAbs(name) {
			abs, err = filepath.Abs(name)
		}
		if err == nil && !c.ignored(abs) {
			c.sources = append(c.sources, abs)
			c.hadSources = true
		}
	}
	info, err := input.Stat(name)
	switch {
	case err != nil && len(c.remaps) > 0:
		add(name)
	case err != nil:
		c.warn("%s: Source file doesn't exist, proceeded by ignoring it.", name)
	case info.Mode().IsRegular():
		add(name)
	case info.IsDir():
		_ = filepath.WalkDir(name, func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				add(name)
			}
			return nil
		})
	}
}

// load reads the profile and the binaries.
func (c *covering) load() error {
	p, err := c.readProfile()
	if err != nil {
		return err
	}
	c.warnOfAge()
	l := llvm.NewLoader(p, llvm.Rules{Version: c.Version})
	if err := c.readBinaries(p, l.Add); err != nil {
		return err
	}
	c.profiled, c.coverage = p, l.Coverage
	if n := len(c.coverage.Mismatches); n > 0 {
		c.warn("%d functions have mismatched data", n)
	}
	c.moveSources()
	if len(c.sources) > 0 {
		files := c.coverage.Files()
		c.sources = slices.DeleteFunc(c.sources, func(name string) bool {
			_, found := slices.BinarySearch(files, name)
			return !found
		})
	}
	if len(c.demangler) > 0 {
		return c.demangleAll()
	}
	return nil
}

// failed is why coverage cannot be loaded because of a file.
func (c *covering) failed(file string, err error) error {
	what := "failed to load coverage: "
	if c.version() < 17 {
		what = "Failed to load coverage: "
	}
	if c.version() < 15 {
		return fmt.Errorf("%s: %s%w", strings.Join(c.objects, ", "), what, err)
	}
	return fmt.Errorf("%s'%s': %w", what, file, err)
}

// A noProfileError is of a profile that cannot be opened, which since LLVM 15 is found before anything is loaded.
type noProfileError struct{ error }

// noProfile is what llvm-cov says then.
func (c *covering) noProfile(err error) error {
	says := c.message("could not read profile data!")
	switch v := c.version(); {
	case v >= 15:
		return noProfileError{fmt.Errorf("%s: %w%w", c.profile, says, err)}
	case v == 14 && c.Args[0] == "show":
		return fmt.Errorf("%w: %w", err, says)
	}
	return c.failed(c.profile, err)
}

var errBadMagic = errors.New("invalid instrumentation profile data (bad magic)")

// readProfile reads an indexed profile, or, if no version is to be imitated, which cannot do that, a raw one.
func (c *covering) readProfile() (*llvm.Profile, error) {
	if c.empty {
		c.Version = c.version()
		return new(llvm.Profile), nil
	}
	b, err := input.ReadFile(c.profile, input.Most())
	if err != nil {
		return nil, c.noProfile(withoutPath(err))
	}
	if f, ok := llvm.Kind(b); (!ok || f != llvm.Indexed) && c.given {
		err := errBadMagic
		if c.version() < 12 {
			err = errors.New(capitalised(err.Error()))
		}
		return nil, c.failed(c.profile, err)
	}
	list, err := llvm.Read(b)
	if err != nil {
		return nil, c.failed(c.profile, c.profileError(b, err))
	}
	if len(list) == 1 && list[0].Format == llvm.Indexed {
		if c.Version == 0 {
			c.Version = newest(list[0])
		}
		c.Version, c.bytes = c.version(), list[0].SingleBytes()
		return list[0], nil
	}
	var x llvm.Indexer
	for _, p := range list {
		if c.Version == 0 {
			c.Version = newest(p)
		}
		if _, err := x.Add(p); err != nil {
			return nil, c.failed(c.profile, err)
		}
	}
	c.Version = c.version()
	p := x.Profile()
	c.bytes = p.SingleBytes()
	return p, nil
}

func (c *covering) warnOfAge() {
	profile, err := input.Stat(c.profile)
	if err != nil {
		return
	}
	for _, name := range c.objects {
		if info, err := input.Stat(name); err == nil && info.ModTime().After(profile.ModTime()) {
			c.warn("%s: profile data may be out of date - object is newer", name)
		}
	}
}

// readBinaries reads those that are named, and those of the profile's build IDs that are found, one after another, and
// has each added. Only for pages they are kept.
func (c *covering) readBinaries(p *llvm.Profile, add func(*llvm.Binary)) error {
	known := make(map[string]bool)
	taken := func(b *llvm.Binary) {
		known[b.BuildID] = true
		add(b)
	}
	reader := llvm.NewBinaryReader()
	each := reader.Each
	if c.format == "html" {
		each = func(name string, r io.ReaderAt, size int64, dir string, do func(*llvm.Binary)) error {
			found, err := reader.Read(name, r, size, dir)
			c.binaries = append(c.binaries, found...)
			for _, b := range found {
				do(b)
			}
			return err
		}
	}
	read := func(name string) error {
		f, err := input.Open(name)
		if err != nil {
			return c.failed(name, withoutPath(err))
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return c.failed(name, withoutPath(err))
		}
		err = each(name, f, info.Size(), c.dir, taken)
		switch {
		case err == nil, errors.Is(err, llvm.ErrNoMapping):
			return nil
		case errors.Is(err, llvm.ErrNotBinary):
			err = words("The file was not recognized as a valid object file")
		}
		return c.failed(name, err)
	}
	for _, name := range c.objects {
		if err := read(name); err != nil {
			return err
		}
	}
	if c.version() >= 16 {
		for _, id := range slices.Sorted(slices.Values(p.BuildIDs)) {
			if known[id] {
				continue
			}
			name := c.binaryOf(id)
			if name == "" {
				if c.checkIDs {
					return c.failed(c.profile, words("Missing binary ID: "+id))
				}
				continue
			}
			if err := read(name); err != nil {
				return err
			}
		}
	}
	if len(known) == 0 {
		return c.failed(strings.Join(c.objects, ", "), c.message("no coverage data found"))
	}
	return nil
}

// binaryOf looks for a binary by its build ID.
func (c *covering) binaryOf(id string) string {
	for _, dir := range c.dirs {
		if len(id) > 2 {
			if name := filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug"); input.IsFile(name) {
				return name
			}
		}
	}
	return ""
}

// moveSources finds where sources are, by -path-equivalence, and turns names of the command line into recorded ones.
func (c *covering) moveSources() {
	if len(c.remaps) == 0 {
		return
	}
	dir := func(name string) string {
		if name = filepath.Clean(name); name == "." {
			return "" // what is relative
		}
		return strings.TrimSuffix(name, "/") + "/"
	}
	c.moved = make(map[string]string)
	recorded := make(map[string]string)
	for _, r := range c.remaps {
		from, to := dir(r[0]), dir(r[1])
		for _, name := range c.coverage.Files() {
			if rest, ok := strings.CutPrefix(filepath.Clean(name), from); ok && c.moved[name] == "" {
				c.moved[name] = to + rest
				recorded[to+rest] = name
			}
		}
	}
	for i, name := range c.sources {
		if of := recorded[name]; of != "" {
			c.sources[i] = of
		}
	}
}

// source reads a source, and says what is wrong with it.
func (c *covering) source(name string) ([]byte, error) {
	b, err := c.readSource(name)
	if err != nil {
		c.colored(c.Stderr, red, fmt.Sprintf("error: %s: %v\n", cmp.Or(c.moved[name], name), withoutPath(err)))
	}
	return b, err
}

func (c *covering) readSource(name string) ([]byte, error) {
	if at := c.moved[name]; at != "" {
		name = at
	}
	read := c.Source
	if read == nil {
		read = input.ReadSource
	}
	return read(name)
}

// demangleAll gives all names to the demangler, and gets as many back.
func (c *covering) demangleAll() error {
	var names strings.Builder
	for _, f := range c.coverage.Functions {
		names.WriteString(f.Name + "\n")
	}
	cmd := exec.Command(c.demangler[0], c.demangler[1:]...)
	cmd.Stdin = strings.NewReader(names.String())
	out, err := cmd.Output()
	if err != nil {
		c.colored(c.Stderr, red, fmt.Sprintf("error: %s: \n", c.demangler[0]))
		return nil
	}
	lines := slices.DeleteFunc(strings.Split(string(out), "\n"), func(s string) bool { return s == "" })
	if len(lines) != len(c.coverage.Functions) {
		c.colored(c.Stderr, red, fmt.Sprintf("error: %v\n", c.message("demangler did not provide expected number of symbols")))
		return nil
	}
	c.demangled = make(map[string]string)
	for i, f := range c.coverage.Functions {
		c.demangled[f.Name] = strings.TrimRight(lines[i], "\r \t")
	}
	return nil
}

func (c *covering) demangle(name string) string {
	if d, ok := c.demangled[name]; ok {
		return d
	}
	return name
}

// files are those that are shown: all, or those that are named.
func (c *covering) files() []string {
	if len(c.sources) > 0 {
		return c.sources
	}
	return slices.DeleteFunc(c.coverage.Files(), c.ignored)
}

// filtered tells whether functions are chosen.
func (c *covering) filtered() bool {
	return len(c.names)+len(c.nameRegexps)+len(c.allowlists)+len(c.limits) > 0
}

// chosen tells whether a function is: by its name, and by how much of it is covered.
func (c *covering) chosen(f *llvm.Function) bool {
	named := len(c.names)+len(c.nameRegexps)+len(c.allowlists) == 0
	named = named || slices.ContainsFunc(c.names, func(s string) bool { return strings.Contains(f.Name, s) })
	named = named || slices.ContainsFunc(slices.Concat(c.nameRegexps, c.allowed), func(re *regexp.Regexp) bool { return re.MatchString(f.Name) })
	if !named || len(c.limits) == 0 {
		return named
	}
	s := c.coverage.Summary(f)
	return slices.ContainsFunc(c.limits, func(l limit) bool {
		percent := s.Regions.Percent()
		if l.lines {
			percent = s.Lines.Percent()
		}
		return l.less && percent < l.percent || !l.less && percent > l.percent
	})
}

func (v *Invocation) export(args []string) error {
	c := &covering{Invocation: v}
	var skipExpansions, skipFunctions, skipBranches bool
	unify := true
	if err := c.start(args, map[string]option{
		"skip-expansions": {flag: &skipExpansions}, "skip-functions": {flag: &skipFunctions}, "skip-branches": {flag: &skipBranches},
		"unify-instantiations": {flag: &unify},
	}); err != nil {
		return err
	}
	if c.format != "text" && c.format != "lcov" {
		return c.message("coverage data can only be exported as textual JSON or an lcov tracefile.")
	}
	if err := c.load(); errors.As(err, new(noProfileError)) {
		return err
	} else if err != nil {
		c.colored(c.Stderr, red, fmt.Sprintf("error: %v\n", err))
		return c.message("could not load coverage information")
	}
	if c.format == "text" {
		files := slices.Sorted(slices.Values(c.files()))
		return c.coverage.WriteJSON(c.Stdout, llvm.JSONOptions{
			Files: files, SummaryOnly: c.summaryOnly, SkipExpansions: skipExpansions, SkipFunctions: skipFunctions,
		})
	}
	return c.coverage.WriteLcov(c.Stdout, llvm.LcovOptions{
		Files: c.files(), SkipFunctions: skipFunctions, SkipBranches: skipBranches, SummaryOnly: c.summaryOnly,
		UnifyInstances: c.Version >= 21 && unify,
	})
}

// mkdirs makes the directory of a file.
func mkdirs(name string) error { return os.MkdirAll(filepath.Dir(name), 0o777) }
