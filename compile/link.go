//go:build linux

package compile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"footfall/output"
)

// Clang with -flto writes bitcode, and the linker compiles that: ld.lld by itself,
// ld.bfd and gold by clang's plugin. So footfall stands in for the linker as it does for
// the assembler, and links in two steps:
//
//  1. As given, but to assembly: the linker chooses what becomes part of the
//     program, optimizes it and stops (-plugin-opt=emit-asm).
//  2. With objects of that assembly, counted, in the place of all bitcode.
//
// Whatever goes wrong, the linker runs as if footfall were not there.

// ReadLink returns the orders if a compiler started the program argv as its
// linker, nil if not.
func ReadLink(argv []string) (*Orders, error) {
	text := os.Getenv(ordersVariable)
	if name := path.Base(argv[0]); text == "" || name != "ld" && !strings.HasPrefix(name, "ld.") {
		return nil, nil
	}
	o := new(Orders)
	if !o.parse(text) || o.Compiler == "" {
		return nil, fmt.Errorf("%s is set by footfall cc only", ordersVariable)
	}
	return o, nil
}

// Link is the linker: it runs the real one, once if nothing is left to compile, and
// returns its exit status. Selected is as for Assemble.
func (o *Orders) Link(argv []string, selected func(unit, function string) bool) int {
	_ = os.Unsetenv(ordersVariable)
	linker := o.Linker
	if linker == "" {
		var err error
		if linker, err = tool(o.Compiler, path.Base(argv[0]), o.Target); err != nil {
			return finish(0, nil, err)
		}
	}
	plain := program{path: linker, args: append([]string{linker}, argv[1:]...), env: os.Environ()}
	line := readLinkLine(argv[1:])
	if len(line.inputs) == 0 || line.own != "" {
		return finish(0, nil, become(linker, plain.args, nil))
	}
	err := o.linkCounted(linker, line, selected)
	if err == nil {
		return 0
	}
	status := finish(plain.run())
	if status == 0 {
		fmt.Fprintf(output.Stderr, "footfall: linked without counting what is compiled now (-flto): %v\n", err)
	}
	return status
}

// linkCounted links in two steps.
func (o *Orders) linkCounted(linker string, line *linkLine, selected func(unit, function string) bool) error {
	if line.output < 0 {
		return errors.New("no option -o")
	}
	if line.excludes && slices.ContainsFunc(line.inputs, func(in linkInput) bool { return in.archive }) {
		return errors.New("--exclude-libs hides symbols by the name of an archive with bitcode")
	}
	dir, err := os.MkdirTemp("", "footfall-lto-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &twoSteps{Orders: o, linker: linker, line: line, dir: dir, selected: selected, rewriting: new(sync.Mutex), original: make(map[string]string)}
	said, files, err := t.emit()
	defer func() {
		for _, f := range files {
			_ = os.Remove(f)
		}
	}()
	if err != nil {
		return err
	}
	objects, err := t.assembleAll(files)
	if err != nil {
		return err
	}
	replaced, err := t.replace()
	if err != nil {
		return err
	}
	return t.link(objects, replaced, said)
}

// twoSteps are the state of a link in two steps.
type twoSteps struct {
	*Orders
	linker    string
	line      *linkLine
	dir       string
	selected  func(unit, function string) bool
	rewriting *sync.Mutex // selected may remember
	// original has the names that the user knows for files in dir.
	original map[string]string
	// loaded are the members of archives that were linked in the first step.
	loaded []string
	// trace is what the user asked for by -t.
	trace []string
}

// run runs the linker and returns what it says on standard error, and the
// lines of standard output: those which name files and those which do not.
func (t *twoSteps) run(args []string) (said []byte, trace, other []string, err error) {
	if size := len(strings.Join(args, " ")); size > 100_000 { // as clang does
		var text []byte
		for _, a := range args {
			text = append(append(append(text, '"'), strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(a)...), "\"\n"...)
		}
		file := path.Join(t.dir, "arguments")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, nil, nil, err
		}
		args = []string{"@" + file}
	}
	// The trace goes to a file, because only one output can be told from others.
	out, err := os.CreateTemp(t.dir, "trace")
	if err != nil {
		return nil, nil, nil, err
	}
	defer out.Close()
	p := program{path: t.linker, args: append([]string{t.linker}, args...), env: os.Environ(), catch: []int{2}, output: out}
	status, said, err := p.run()
	if err != nil {
		return nil, nil, nil, err
	}
	if status != 0 {
		reason, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		return nil, nil, nil, fmt.Errorf("%s: exit status %d: %s", t.linker, status, reason)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return nil, nil, nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if file, _ := traced(line); exists(file) {
			trace = append(trace, line)
		} else {
			other = append(other, line)
		}
	}
	return said, trace, other, nil
}

// traced returns what a line of a linker's -t names: FILE, ARCHIVE(MEMBER) or, from
// ld.bfd, (ARCHIVE)MEMBER.
func traced(line string) (file, member string) {
	if rest, ok := strings.CutPrefix(line, "("); ok {
		file, member, _ = strings.Cut(rest, ")")
		return file, member
	}
	if n := strings.LastIndexByte(line, '('); n > 0 && strings.HasSuffix(line, ")") {
		return line[:n], line[n+1 : len(line)-1]
	}
	return line, ""
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// emit is the first step. It returns the files with assembly, in the order of the
// bitcode, and with an error too those that there are.
func (t *twoSteps) emit() (said []byte, files []string, err error) {
	name := fmt.Sprintf("footfall-lto-%d", os.Getpid())
	places, err := t.places(name)
	if err != nil {
		return nil, nil, err
	}
	args := append(t.line.named(path.Join(t.dir, name)), "-plugin-opt=emit-asm", "-t", "-t")
	said, trace, _, err := t.run(args)
	for _, p := range places {
		files = append(files, p.files()...)
	}
	if err != nil {
		return nil, files, err
	}
	t.loaded = t.members(trace)
	if t.line.trace {
		t.trace = trace
	}
	if len(files) == 0 {
		err = errors.New("the linker wrote no assembly")
	}
	return said, files, err
}

// A place is where assembly may be: names in a directory that begin in some way.
type place struct{ dir, prefix, suffix string }

func (p place) files() []string {
	entries, _ := os.ReadDir(p.dir)
	var list []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, p.prefix) || !strings.HasSuffix(name, p.suffix) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && info.Size() > 0 {
			list = append(list, path.Join(p.dir, name))
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) })
	return list
}

// number returns the last number in a name: that of a partition, or the offset in
// an archive.
func number(name string) int {
	digits := func(r rune) bool { return r >= '0' && r <= '9' }
	head := name[:strings.LastIndexFunc(name, digits)+1]
	n, _ := strconv.Atoi(head[len(strings.TrimRightFunc(head, digits)):])
	return n
}

// places returns where linkers write assembly whose output is called name: beside
// it as name, name1, name.lto.s and so on, or, lld since 18 for ThinLTO, beside the
// bitcode: name.lto.x.s for x.o and name.lto.libx.a(x.o at 68).s for its member.
func (t *twoSteps) places(name string) ([]place, error) {
	list := []place{{dir: t.dir, prefix: name}}
	seen := make(map[string]bool)
	for _, in := range t.line.inputs {
		dir, base := path.Split(in.file)
		p := place{dir: path.Clean(dir), prefix: name + ".lto." + base + "(", suffix: ").s"}
		if !in.archive {
			p.suffix = strings.TrimSuffix(base, path.Ext(base)) + ".s"
			p.prefix = name + ".lto." + p.suffix
		}
		if key := p.dir + "/" + p.prefix; seen[key] && !in.archive {
			return nil, fmt.Errorf("%s: another file's name differs in the ending only", in.file) // lld writes one name twice
		} else if !seen[key] {
			seen[key] = true
			list = append(list, p)
		}
	}
	return list, nil
}

// members returns which members of archives a trace names that are not bitcode, by
// the user's names.
func (t *twoSteps) members(trace []string) []string {
	var list []string
	for _, line := range trace {
		file, name := traced(line)
		if name == "" {
			continue
		}
		if known, ok := t.original[file]; ok {
			file = known
		}
		file = path.Clean(file) // ld.bfd says ./libx.a for -L.
		for _, in := range t.line.inputs {
			if in.archive && path.Clean(in.file) == file && !slices.ContainsFunc(in.native, func(m member) bool { return path.Base(m.name) == path.Base(name) }) {
				name = ""
			}
		}
		if name != "" {
			list = append(list, file+"("+path.Base(name)+")")
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// assembleAll makes objects of files with assembly.
func (t *twoSteps) assembleAll(files []string) ([]string, error) {
	objects := make([]string, len(files))
	errs := make([]error, len(files))
	var wait sync.WaitGroup
	turns := make(chan struct{}, runtime.NumCPU())
	for i, file := range files {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			objects[i] = path.Join(t.dir, fmt.Sprintf("lto%d.o", i))
			src, err := os.ReadFile(file)
			if err == nil && bytes.IndexByte(src, 0) >= 0 {
				err = fmt.Errorf("%s: not assembly", file)
			}
			if err == nil {
				err = t.assemble(src, objects[i])
			}
			errs[i] = err
		})
	}
	wait.Wait()
	return objects, errors.Join(errs...)
}

// assemble makes an object of assembly, counted if that can be. The assembler is
// clang's own: that of binutils does not know all that clang writes for it.
func (t *twoSteps) assemble(src []byte, object string) error {
	args := slices.Concat([]string{t.Compiler}, t.Target, []string{"-fintegrated-as", "-Qunused-arguments", "-c", "-x", "assembler", "-", "-o", object})
	p := program{path: t.Compiler, args: args, env: os.Environ(), catch: []int{1, 2}}
	run := func(text []byte) error {
		p.input = text
		status, said, err := p.run()
		if err == nil && status != 0 {
			reason, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
			err = fmt.Errorf("%s refuses assembly: %s", t.Compiler, reason)
		}
		return err
	}
	t.rewriting.Lock()
	out, problems, ok := t.rewrite(nil, src, t.selected)
	t.rewriting.Unlock()
	if !ok {
		out = src
	}
	if t.last() {
		for _, array := range []string{"\n\t.section\t.init_array", "\n\t.section\t.fini_array"} {
			out = bytes.ReplaceAll(out, []byte(array+","), []byte(array+".65537,"))
		}
	}
	if err := run(out); err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(output.Stderr, "footfall: %s\n", p)
	}
	return nil
}

// last tells whether the linker puts what it compiles behind all else, so that its
// constructors run last: ld.lld does, which sorts them by a number in the section's
// name, 65536 without one. The others put it where the first bitcode is.
func (t *twoSteps) last() bool {
	return strings.HasPrefix(path.Base(t.linker), "ld.lld") && !t.line.relocatable
}

// replace returns what stands in the place of inputs: what they have besides bitcode.
func (t *twoSteps) replace() (map[int][]string, error) {
	replaced := make(map[int][]string)
	for i, in := range t.line.inputs {
		replaced[in.at] = nil
		if len(in.native) == 0 {
			continue
		}
		file := path.Join(t.dir, strconv.Itoa(i), path.Base(in.file))
		if err := t.writeNative(file, in.native); err != nil {
			return nil, err
		}
		t.original[file] = in.file
		replaced[in.at] = []string{file}
	}
	return replaced, nil
}

// writeNative writes an archive of what is no bitcode.
func (t *twoSteps) writeNative(file string, native []member) error {
	if err := os.Mkdir(path.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(writeArchive(f, native), f.Close())
}

// link is the second step. The objects are where the first bitcode was: of several
// definitions the first one counts, and they have only those that were chosen. Members of archives for which only bitcode asked,
// before it was optimized, are asked for again.
func (t *twoSteps) link(objects []string, replaced map[int][]string, said []byte) error {
	again, trace, other, err := t.run(append(t.line.with(objects, replaced), "-t", "-t"))
	if err != nil {
		return err
	}
	if missing := t.missing(trace); len(missing) > 0 {
		object, err := t.wanted(missing)
		if err != nil {
			return err
		}
		objects = append(objects, object)
		if again, trace, other, err = t.run(append(t.line.with(objects, replaced), "-t", "-t")); err != nil {
			return err
		}
		if missing = t.missing(trace); len(missing) > 0 {
			return fmt.Errorf("%s is not linked any more", missing[0])
		}
	}
	t.correctDependencies(objects)
	for line := range bytes.Lines(said) {
		if !bytes.Contains(again, line) {
			_, _ = os.Stderr.Write(line)
		}
	}
	_, _ = os.Stderr.Write(again)
	for _, line := range slices.Concat(t.trace, other) {
		fmt.Println(line)
	}
	return nil
}

// missing returns the members of archives that only the first step linked.
func (t *twoSteps) missing(trace []string) []string {
	now := t.members(trace)
	return slices.DeleteFunc(slices.Clone(t.loaded), func(m string) bool {
		_, found := slices.BinarySearch(now, m)
		return found
	})
}

// wanted makes an object that refers to members of archives, and has nothing.
func (t *twoSteps) wanted(members []string) (string, error) {
	text := []byte("\t.section .footfall_wanted,\"e\"\n")
	for _, m := range members {
		file, name := traced(m)
		list, err := readArchive(file)
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(list, func(m member) bool { return path.Base(m.name) == name })
		if at < 0 {
			return "", fmt.Errorf("%s: no longer there", m)
		}
		defined := definitions(list[at].data)
		if len(defined) == 0 {
			return "", fmt.Errorf("%s has no symbol", m)
		}
		text = fmt.Appendf(text, "\t.long %s\n", strconv.Quote(defined[0]))
	}
	text = append(text, "\t.section .note.GNU-stack,\"\"\n"...)
	object := path.Join(t.dir, "wanted.o")
	counted := *t.Orders
	counted.Calls, counted.Sites = false, false
	steps := *t
	steps.Orders = &counted
	return object, steps.assemble(text, object)
}

// correctDependencies replaces our names in the list of files that the linker was
// told to write for make.
func (t *twoSteps) correctDependencies(objects []string) {
	file := ""
	t.line.each(func(name, value string, at, _ int) {
		if name == "dependency-file" {
			if file = value; file == "" && at+1 < len(t.line.args) {
				file = t.line.args[at+1]
			}
		}
	})
	text, err := os.ReadFile(file)
	if file == "" || err != nil {
		return
	}
	var pairs []string
	for ours, original := range t.original {
		pairs = append(pairs, ours, original)
	}
	for _, o := range objects {
		pairs = append(pairs, o, t.line.inputs[0].file)
	}
	_ = os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644)
}
