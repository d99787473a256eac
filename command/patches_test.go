package command

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var (
	patches     = flag.Int("patches", 3, "compare the patch coverage of `N` random commits")
	patchSeed   = flag.Uint64("patch-seed", 1, "make the commits from this `SEED`")
	patchOthers = flag.Bool("patch-others", false, "compare with Subversion, Mercurial and diff-cover, too")
)

// TestRandomPatches makes random commits in a repository in which many sources
// have the same base name, with files that are renamed, moved, copied, replaced
// by others and not compiled. Of each commit footfall has to say the same in
// every style of diff: the lines that git says were changed, covered as gcov
// says, and thresholds right to the last digit. scripts/random-patches makes
// many commits.
func TestRandomPatches(t *testing.T) {
	w := newPatchWorld(t)
	for i := range *patches {
		w.number = i + 1
		w.commit()
		for _, style := range patchStyles {
			w.compare(style)
		}
		if *patchOthers {
			w.compareSubversion()
			w.compareMercurial()
			w.compareDiffCover()
		}
	}
	w.results.print(t)
}

// A patchWorld is a linked worktree with a history, and objects of its sources.
type patchWorld struct {
	t        *testing.T
	rand     *rand.Rand
	dir, top string            // of all, of the worktree
	files    map[string]string // contents, by name from the top
	compiled map[string]bool
	names    int // of functions, so far
	number   int // of the commit
	log      []string
	ran      map[string]map[int]bool // of the sources with code, which lines ran, as gcov says
	results  patchResults
}

// patchResults counts comparisons by style.
type patchResults struct {
	styles               []string
	compared, lines, bad map[string]int
}

func (r *patchResults) print(t *testing.T) {
	sum := 0
	for _, s := range r.styles {
		sum += r.compared[s]
		t.Logf("%-40s %5d compared, %7d changed lines with code, %d differ", s, r.compared[s], r.lines[s], r.bad[s])
	}
	t.Logf("%d commits, %d comparisons", *patches, sum)
}

func (r *patchResults) add(style string, lines int, right bool) {
	if r.compared == nil {
		r.compared, r.lines, r.bad = make(map[string]int), make(map[string]int), make(map[string]int)
	}
	if r.compared[style] == 0 {
		r.styles = append(r.styles, style)
	}
	r.compared[style]++
	r.lines[style] += lines
	if !right {
		r.bad[style]++
	}
}

// patchNames are those of sources at first, and of new ones.
var patchNames = []string{
	"util.c", "main.c", "lib/util.c", "lib/main.c", "a/util.c", "b/util.c", "a/b/util.c", "b/a/util.c", "c/main.c", "i/w/util.c", "w/util.c", "o/main.c", "o/c/main.c",
	"lib/lib/util.c", "odd/\u00e4 \"b\"/util.c", "odd/with space.c", "odd/b/with space.c", "odd/back\\slash.c", "odd/tab\t.c", "inc/util.h", "lib/util.h",
}

func newPatchWorld(t *testing.T) *patchWorld {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GIT_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "n")
		t.Setenv("GIT_"+who+"_EMAIL", "n@example.org")
		t.Setenv("GIT_"+who+"_DATE", "1700000000 +0000")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &patchWorld{t: t, rand: rand.New(rand.NewPCG(*patchSeed, 13)), dir: dir, top: filepath.Join(dir, "work"), files: make(map[string]string), compiled: make(map[string]bool)}
	command(t, dir, "git", "init", "-q", "-b", "main", "repository")
	repository := filepath.Join(dir, "repository")
	command(t, repository, "git", "commit", "-q", "--allow-empty", "-m", "empty")
	command(t, repository, "git", "worktree", "add", "-q", "-b", "work", w.top)
	if err := os.Mkdir(filepath.Join(dir, "build"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("work", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	w.files["README"] = "read\n"
	for _, name := range patchNames {
		if !*patchOthers || !strings.Contains(name, "\t") { // Subversion takes no such name
			w.add(name)
		}
	}
	w.write()
	command(t, w.top, "git", "commit", "-q", "-m", "first")
	return w
}

// add makes a new source.
func (w *patchWorld) add(name string) {
	text := "/* a source */\n"
	for range 1 + w.rand.IntN(4) {
		text += w.function(name)
	}
	w.files[name] = text
	w.compiled[name] = strings.HasSuffix(name, ".c") && w.rand.IntN(4) > 0
}

// function returns a new one; those of headers are of no other source.
func (w *patchWorld) function(name string) string {
	w.names++
	static := ""
	if strings.HasSuffix(name, ".h") {
		static = "static "
	}
	text := fmt.Sprintf("\n%sint f%d(int n)\n{\n", static, w.names)
	for range 1 + w.rand.IntN(5) {
		text += w.statement()
	}
	return text + "\treturn n;\n}\n"
}

func (w *patchWorld) statement() string {
	n := w.rand.IntN(9)
	switch w.rand.IntN(7) {
	case 0:
		return fmt.Sprintf("\tif (n > %d)\n\t\tn -= %d;\n", n, n)
	case 1:
		return fmt.Sprintf("\tif (n == %d) {\n\t\tn++;\n\t\tn *= %d;\n\t}\n", n, n)
	case 2:
		return "\t/* a remark */\n"
	case 3:
		return "\n"
	case 4:
		return "++n;\n" // as the header of a file in a diff: "+++n;"
	case 5:
		return fmt.Sprintf("--n; n +=\n\t\t%d;\n", n)
	}
	return fmt.Sprintf("\tn += %d;\n", n)
}

// commit makes random changes and a commit, compiles and runs.
func (w *patchWorld) commit() {
	w.log = nil
	for {
		for range 1 + w.rand.IntN(6) {
			w.change()
		}
		w.write()
		if w.git("diff", "--cached", "--name-only") != "" {
			break
		}
	}
	command(w.t, w.top, "git", "commit", "-q", "-m", fmt.Sprint("number ", w.number))
	w.build()
}

func (w *patchWorld) pick() string {
	names := slices.Sorted(maps.Keys(w.files))
	return names[w.rand.IntN(len(names))]
}

// free returns a name that no file has; mostly the base name is one of others.
func (w *patchWorld) free(ext string) string {
	for {
		dir := filepath.Dir(patchNames[w.rand.IntN(len(patchNames))])
		base := []string{"util", "main", "with space", "new"}[w.rand.IntN(4)]
		if w.rand.IntN(3) == 0 {
			dir = filepath.Join(dir, string("abciow"[w.rand.IntN(6)]))
		}
		name := filepath.Join(dir, base+ext)
		if _, is := w.files[name]; is {
			continue
		}
		return name
	}
}

func (w *patchWorld) change() {
	name := w.pick()
	ext := filepath.Ext(name)
	say := func(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }
	move := func(to string) {
		w.files[to], w.compiled[to] = w.files[name], w.compiled[name]
		delete(w.files, name)
		delete(w.compiled, name)
		say("%q becomes %q", name, to)
	}
	switch kind := w.rand.IntN(20); {
	case ext == "" || kind < 8:
		for range 1 + w.rand.IntN(3) {
			w.edit(name)
		}
		say("%q is edited", name)
	case kind < 10:
		move(w.free(ext))
	case kind < 12:
		to := w.free(ext)
		move(to)
		w.edit(to)
		say("and is edited")
	case kind == 12: // another of the name takes its place
		move(w.free(ext))
		w.add(name)
		say("%q is new", name)
	case kind == 13:
		delete(w.files, name)
		delete(w.compiled, name)
		say("%q is deleted", name)
	case kind == 14: // two change their places
		other := w.pick()
		if filepath.Ext(other) == ext {
			w.files[name], w.files[other] = w.files[other], w.files[name]
			w.compiled[name], w.compiled[other] = w.compiled[other], w.compiled[name]
			say("%q and %q change places", name, other)
		}
	case kind == 15: // a copy, in which functions have other names
		to := w.free(ext)
		w.files[to] = regexp.MustCompile(`\bf\d+\(`).ReplaceAllStringFunc(w.files[name], func(string) string {
			w.names++
			return fmt.Sprintf("f%d(", w.names)
		})
		w.compiled[to] = ext == ".c" && w.rand.IntN(2) == 0
		say("%q is copied to %q", name, to)
	case kind == 16:
		w.compiled[name] = ext == ".c" && !w.compiled[name]
		w.edit(name)
		say("%q is edited, compiled: %v", name, w.compiled[name])
	default:
		to := w.free([]string{".c", ".c", ".h"}[w.rand.IntN(3)])
		w.add(to)
		say("%q is new, compiled: %v", to, w.compiled[to])
	}
}

// edit changes a few lines of a file, which compiles as before.
func (w *patchWorld) edit(name string) {
	lines := strings.SplitAfter(strings.TrimSuffix(w.files[name], "\n"), "\n")
	i := w.rand.IntN(len(lines))
	simple := regexp.MustCompile(`^(\tn \+= \d;\n|\t/\* .*\n|\+\+n;\n|\n)$`)
	switch statement := strings.HasPrefix(lines[i], "\tn") || strings.HasPrefix(lines[i], "\treturn"); {
	case filepath.Ext(name) == "":
		lines = slices.Insert(lines, i, "more\n")
	case statement && w.rand.IntN(2) == 0:
		lines = slices.Insert(lines, i, w.statement())
	case simple.MatchString(lines[i]):
		lines = slices.Delete(lines, i, i+1)
	case strings.Contains(lines[i], "n -= "):
		lines[i] = fmt.Sprintf("\t\tn -= %d;\n", w.rand.IntN(100))
	case i == len(lines)-1:
		lines[i] = lines[i] + "\n" + w.function(name)
	default:
		lines = slices.Insert(lines, 0, []string{"\n", "/* first */\n", "#define FIRST\n"}[w.rand.IntN(3)])
	}
	w.files[name] = strings.TrimSuffix(strings.Join(lines, ""), "\n")
	if w.rand.IntN(8) > 0 {
		w.files[name] += "\n"
	}
}

// write makes the worktree and the index what the files are.
func (w *patchWorld) write() {
	entries, err := os.ReadDir(w.top)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".git" {
			if err := os.RemoveAll(filepath.Join(w.top, e.Name())); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for name, text := range w.files {
		writeFile(w.t, filepath.Join(w.top, name), text)
	}
	command(w.t, w.top, "git", "add", "-A")
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// build compiles the sources, from several directories and by several names,
// runs a program that calls some functions, and asks gcov.
func (w *patchWorld) build() {
	build := filepath.Join(w.dir, "build")
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if strings.HasSuffix(name, ".h") {
			headers = append(headers, name)
		}
	}
	objects := map[string]bool{"prog": true, "calls.c": true, "calls.o": true}
	var link []string
	defined := regexp.MustCompile(`(?m)^(?:static )?int (f\d+)\(`)
	calls := "#include <stdlib.h>\n"
	body := "int main(void)\n{\n\tint n = 3;\n"
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if !w.compiled[name] {
			continue
		}
		hash := fnv.New64()
		fmt.Fprint(hash, name, w.files[name])
		var includes []string
		for i, h := range headers { // one source has the functions of a header
			if owner := fnv.New32(); len(w.compiled) > 0 {
				fmt.Fprint(owner, h)
				if users := w.users(); users[int(owner.Sum32())%len(users)] == name {
					includes = append(includes, "-include", filepath.Join(w.top, headers[i]))
					fmt.Fprint(hash, h, w.files[h])
				}
			}
		}
		object := fmt.Sprintf("o%x", hash.Sum64())
		objects[object+".o"], objects[object+".gcno"] = true, true
		link = append(link, object+".o")
		if _, err := os.Stat(filepath.Join(build, object+".o")); err != nil {
			cwd, source := w.top, name
			switch hash.Sum64() % 3 {
			case 1:
				cwd, source = build, "../work/"+name
			case 2:
				cwd, source = build, filepath.Join(w.top, name)
			}
			command(w.t, cwd, "gcc-12", slices.Concat([]string{"-w", "--coverage", "-O0", "-c", source, "-o", filepath.Join(build, object+".o")}, includes)...)
		}
		for _, f := range defined.FindAllStringSubmatch(w.files[name], -1) {
			if w.rand.IntN(2) == 0 {
				calls += "int " + f[1] + "(int);\n"
				body += "\tn = " + f[1] + "(n);\n"
			}
		}
	}
	writeFile(w.t, filepath.Join(build, "calls.c"), calls+body+"\treturn 0;\n}\n")
	command(w.t, build, "gcc-12", "-w", "-c", "calls.c")
	entries, err := os.ReadDir(build)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if !objects[e.Name()] {
			os.Remove(filepath.Join(build, e.Name()))
		}
	}
	command(w.t, build, "gcc-12", append([]string{"--coverage", "-o", "prog", "calls.o"}, link...)...)
	command(w.t, build, "./prog")
	w.gcov(build, link)
}

// users are the compiled sources.
func (w *patchWorld) users() (users []string) {
	for _, name := range slices.Sorted(maps.Keys(w.compiled)) {
		if w.compiled[name] {
			users = append(users, name)
		}
	}
	return users
}

// gcov fills ran with what the real gcov says.
func (w *patchWorld) gcov(build string, objects []string) {
	w.ran = make(map[string]map[int]bool)
	cmd := exec.Command("gcov-12", append([]string{"--json-format", "--stdout"}, objects...)...)
	cmd.Dir = build
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var unit struct {
			Cwd   string `json:"current_working_directory"`
			Files []struct {
				File  string
				Lines []struct {
					Line  int `json:"line_number"`
					Count int64
				}
			}
		}
		if err := decoder.Decode(&unit); err != nil {
			w.t.Fatal(err)
		}
		for _, f := range unit.Files {
			path := f.File
			if !filepath.IsAbs(path) {
				path = filepath.Join(unit.Cwd, path)
			}
			name, err := filepath.Rel(w.top, path)
			if err != nil || len(f.Lines) == 0 {
				continue
			}
			if w.ran[name] == nil {
				w.ran[name] = make(map[int]bool)
			}
			for _, l := range f.Lines {
				w.ran[name][l.Line] = w.ran[name][l.Line] || l.Count > 0
			}
		}
	}
}

// A patchStyle is a way to make a diff of the last commit, and to give it to
// footfall.
type patchStyle struct {
	name    string
	options []string // of git diff
	same    []string // those of them that make other lines changed ones
	config  []string // of the repository
	make    func(w *patchWorld) string
	cwd     string // where footfall runs; from w.dir
	hook    bool   // as in a hook
	within  string // only files below it are in the diff
	// one makes the diff of one file only, where it is not git that says which
	// lines were changed.
	one func(w *patchWorld, name string) string
}

var hostile = []string{
	"diff.noprefix=true", "diff.mnemonicPrefix=true", "color.ui=always", "color.diff=always", "diff.renames=copies", "diff.external=/bin/false", "core.quotePath=false", "diff.context=7",
	"diff.interHunkContext=5", "diff.relative=true", "diff.odd.textconv=rev", "diff.odd.command=/bin/false", "diff.wsErrorHighlight=all", "diff.submodule=log", "diff.suppressBlankEmpty=true",
}

var patchStyles = []patchStyle{
	{name: "a revision"},
	{name: "a revision, whatever the settings", config: hostile},
	{name: "a revision, in a hook, below the top", cwd: "work/lib", hook: true},
	{name: "a revision, through a link", cwd: "link"},
	{name: "a revision, of what is binary to git", make: func(w *patchWorld) string {
		name := filepath.Join(w.dir, "repository/.git/info/attributes")
		writeFile(w.t, name, []string{"*.c -diff\n", "*.c diff=odd\n", "* binary\n"}[w.number%3])
		w.t.Cleanup(func() { os.Remove(name) })
		return ""
	}},
	{name: "git diff"},
	{name: "git diff, seen from a directory", cwd: "work/lib"},
	{name: "git diff, seen from above", cwd: "."},
	{name: "git diff -U0", options: []string{"-U0"}},
	{name: "git diff -U12", options: []string{"-U12"}, cwd: "link"},
	{name: "git diff --no-prefix", options: []string{"--no-prefix"}},
	{name: "git diff --no-prefix -U0 --no-renames", options: []string{"--no-prefix", "-U0", "--no-renames"}, same: []string{"--no-renames"}},
	{name: "git diff, mnemonic prefixes", config: []string{"diff.mnemonicPrefix=true"}},
	{name: "git diff, other prefixes", options: []string{"--src-prefix=old/", "--dst-prefix=new/"}},
	{name: "git diff --no-renames", options: []string{"--no-renames"}, same: []string{"--no-renames"}},
	{name: "git diff -M20%", options: []string{"-M20%"}, same: []string{"-M20%"}},
	{name: "git diff -C --find-copies-harder", options: []string{"-C", "--find-copies-harder"}, same: []string{"-C", "--find-copies-harder"}},
	{name: "git diff --minimal", options: []string{"--minimal"}, same: []string{"--minimal"}},
	{name: "git diff --patience", options: []string{"--patience", "-U1"}, same: []string{"--patience"}},
	{name: "git diff --histogram", options: []string{"--histogram"}, same: []string{"--histogram"}},
	{name: "git diff -W", options: []string{"-W"}},
	{name: "git diff -w", options: []string{"-w"}, same: []string{"-w"}},
	{name: "git diff --binary, CR LF", options: []string{"--binary"}, make: func(w *patchWorld) string {
		return strings.ReplaceAll(w.git("diff", "HEAD~1", "HEAD"), "\n", "\r\n")
	}},
	{name: "git diff --relative", options: []string{"--relative"}, within: "lib/"},
	{name: "git format-patch", make: func(w *patchWorld) string { return w.git("format-patch", "-1", "--stdout") }},
	{name: "git show --stat -p -U5", make: func(w *patchWorld) string { return w.git("show", "--stat", "-p", "-U5") }},
	{name: "diff -ruN", one: (*patchWorld).diffOne, make: func(w *patchWorld) string {
		return w.diff("-ruN", "--exclude=.git", "before", "work")
	}},
	{name: "diff -ruN, seen from above", cwd: ".", one: (*patchWorld).diffOne, make: func(w *patchWorld) string {
		return w.diff("-ruN", "--exclude=.git", "before", "work")
	}},
	{name: "diff -u of each file, absolute names", one: (*patchWorld).diffOne, make: func(w *patchWorld) string {
		text := ""
		for _, name := range w.changedNames() {
			text += w.diffOne(name)
		}
		return text
	}},
	{name: "diff -u of each file, no names but one", one: (*patchWorld).diffOne, make: func(w *patchWorld) string {
		text := ""
		for _, name := range w.changedNames() {
			label := strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\t", "\\t").Replace(name)
			if label != name {
				label = `"` + label + `"`
			}
			text += "Index: " + name + "\n" + strings.Repeat("=", 67) + "\n" + w.diff("-uN", "--label", label+"\t(revision 1)", "--label", label+"\t(working copy)", "before/"+name, "work/"+name)
		}
		return text
	}},
}

func (w *patchWorld) git(args ...string) string { return w.output(w.top, "git", args...) }

// diff runs GNU diff, which ends with 1 if there are differences.
func (w *patchWorld) diff(args ...string) string { return w.output(w.dir, "diff", args...) }

func (w *patchWorld) output(dir, name string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil && !(name == "diff" && cmd.ProcessState.ExitCode() == 1) {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		w.t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

func (w *patchWorld) diffOne(name string) string {
	return w.diff("-uN", filepath.Join(w.dir, "before", name), filepath.Join(w.top, name))
}

// A changedFile is a file in two versions, "" if it is not in one.
type changedFile struct{ old, new, oldBlob, newBlob string }

// changedFiles asks git, in its form for programs.
func (w *patchWorld) changedFiles(within string, options ...string) (files []changedFile) {
	fields := strings.Split(w.output(filepath.Join(w.top, within), "git", slices.Concat([]string{"diff", "--raw", "-z", "--no-abbrev", "--relative", "-M"}, options, []string{"HEAD~1", "HEAD"})...), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(fields[i]) // :100644 100644 BLOB BLOB KIND
		c := changedFile{old: fields[i+1], new: fields[i+1], oldBlob: f[2], newBlob: f[3]}
		switch f[4][0] {
		case 'A':
			c.old = ""
		case 'D':
			c.new = ""
		case 'R', 'C':
			i++
			c.new = fields[i+1]
		}
		if c.new != "" {
			c.new = within + c.new
		}
		files = append(files, c)
	}
	return files
}

func (w *patchWorld) changedNames() (names []string) {
	for _, c := range w.changedFiles("", "--no-renames") {
		names = append(names, cmp.Or(c.new, c.old))
	}
	return names
}

// changed returns the lines that were inserted or changed.
func (w *patchWorld) changed(s patchStyle) map[string][]int {
	changed := make(map[string][]int)
	if s.one != nil {
		for _, name := range w.changedNames() {
			if _, is := w.files[name]; !is {
				continue
			}
			if lines := insertedLines(s.one(w, name)); len(lines) > 0 {
				changed[name] = lines
			}
		}
		return changed
	}
	for _, c := range w.changedFiles(s.within, s.same...) {
		if c.new == "" {
			continue
		}
		var lines []int
		switch {
		case c.old == "":
			for i := range strings.Count(strings.TrimSuffix(w.files[c.new], "\n"), "\n") + 1 {
				lines = append(lines, i+1)
			}
		case c.oldBlob != c.newBlob:
			options := slices.DeleteFunc(slices.Clone(s.same), func(o string) bool { return o[1] == 'M' || o[1] == 'C' || strings.HasPrefix(o, "--find") })
			text := w.git(slices.Concat([]string{"diff", "-U0", "--text", "--no-ext-diff", "--no-textconv"}, options, []string{c.oldBlob, c.newBlob})...)
			lines = insertedLines(text)
		}
		if len(lines) > 0 {
			changed[c.new] = lines
		}
	}
	return changed
}

// insertedLines returns which lines are inserted in the diff of one file.
func insertedLines(text string) (lines []int) {
	number, old, new := 0, 0, 0
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`).FindStringSubmatch(line); m != nil && old+new == 0 {
			old, _ = strconv.Atoi(cmp.Or(m[1], "1"))
			number, _ = strconv.Atoi(m[2])
			new, _ = strconv.Atoi(cmp.Or(m[3], "1"))
			continue
		}
		switch {
		case old+new == 0 || line[0] == '\\':
		case line[0] == '-':
			old--
		case line[0] == '+':
			lines = append(lines, number)
			number, new = number+1, new-1
		default:
			number, old, new = number+1, old-1, new-1
		}
	}
	return lines
}

// compare gives footfall the diff in one style.
func (w *patchWorld) compare(s patchStyle) {
	if s.cwd != "" {
		if _, err := os.Stat(filepath.Join(w.dir, s.cwd)); err != nil {
			return
		}
	}
	if s.within != "" {
		if _, err := os.Stat(filepath.Join(w.top, s.within)); err != nil {
			return
		}
	}
	if s.one != nil {
		w.before()
	}
	want := w.changed(s) // before there are settings
	for _, setting := range s.config {
		name, value, _ := strings.Cut(setting, "=")
		w.git("config", name, value)
		defer w.git("config", "--unset", name)
	}
	base := "HEAD~1"
	text := ""
	switch {
	case s.make != nil:
		text = s.make(w)
	case !strings.HasPrefix(s.name, "a revision"):
		text = w.output(filepath.Join(w.top, s.within), "git", slices.Concat([]string{"diff"}, s.options, []string{"HEAD~1", "HEAD"})...)
	}
	if !strings.HasPrefix(s.name, "a revision") {
		base = filepath.Join(w.dir, "x.patch")
		writeFile(w.t, base, text)
	}
	w.check(s, base, want)
	if strings.HasSuffix(s.name, "binary to git") {
		os.Remove(filepath.Join(w.dir, "repository/.git/info/attributes"))
	}
}

// before checks the last version out beside this one.
func (w *patchWorld) before() {
	dir := filepath.Join(w.dir, "before")
	if err := os.RemoveAll(dir); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		w.t.Fatal(err)
	}
	command(w.t, w.top, "git", "archive", "--format=tar", "--output="+dir+".tar", "HEAD~1")
	command(w.t, dir, "tar", "-xf", dir+".tar")
}

// check compares what footfall says of the diff with what git and gcov say.
func (w *patchWorld) check(s patchStyle, base string, changed map[string][]int) {
	want := make(map[string]bool) // "name:line", whether it ran
	covered := 0
	unseen := false
	for name, lines := range changed {
		unseen = unseen || strings.HasSuffix(name, ".c") && w.ran[name] == nil
		for _, line := range lines {
			if ran, code := w.ran[name][line]; code {
				want[fmt.Sprintf("%s:%d", name, line)] = ran
				if ran {
					covered++
				}
			}
		}
	}
	got, said, right := make(map[string]bool), "", true
	json := filepath.Join(w.dir, "report.json")
	if status, text := w.footfall(s, "report", "--output", "json="+json, "--diff-base", base); status != 0 {
		right, said = false, text
	} else {
		got = w.changedInReport(s, json)
		said = text
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		right = false
		said += "(-want +got)\n" + diff
	}
	doubtful := s.within != "" && w.deletesNamesake(s)
	for threshold, status := range exactThresholds(covered, len(want), unseen) {
		got, text := w.footfall(s, "report", "--output", "json="+json, "--diff-base", base, "--fail-under", "patch="+threshold)
		if got != status && !(doubtful && got == 3) {
			right = false
			said += fmt.Sprintf("patch=%s: status %d, want %d\n%s", threshold, got, status, text)
		}
	}
	w.results.add(s.name, len(want), right)
	if !right {
		w.t.Errorf("seed %d, commit %d, %s:\n%s\n%s", *patchSeed, w.number, s.name, strings.Join(w.log, "\n"), said)
	}
}

// deletesNamesake tells whether a file is deleted of which another one, seen from the top,
// has the name. A diff relative to a directory does not say where that is: it may be one the
// wrong way round of the other.
func (w *patchWorld) deletesNamesake(s patchStyle) bool {
	for _, name := range strings.Split(w.output(filepath.Join(w.top, s.within), "git", "diff", "--relative", "--no-renames", "--diff-filter=D", "--name-only", "-z", "HEAD~1", "HEAD"), "\x00") {
		if _, err := os.Stat(filepath.Join(w.top, name)); name != "" && err == nil {
			return true
		}
	}
	return false
}

// exactThresholds returns the status to expect of thresholds at, just below and
// just above a part.
func exactThresholds(covered, total int, unseen bool) map[string]int {
	missed := map[bool]int{true: 3}
	if total == 0 {
		return map[string]int{"100": missed[unseen], "0.00000000000000000000000000001": missed[unseen]}
	}
	all := map[string]int{"0": 0, "100": missed[covered < total]}
	digits := new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil)
	n := new(big.Int).Mul(big.NewInt(int64(100*covered)), digits)
	n, rest := n.QuoRem(n, big.NewInt(int64(total)), new(big.Int))
	at := func(n *big.Int) string { return new(big.Rat).SetFrac(n, digits).FloatString(30) }
	if n.Sign() > 0 {
		all[at(n)] = 0
	}
	if above := new(big.Int).Add(n, big.NewInt(1)); covered < total {
		all[at(above)] = 3
	} else if rest.Sign() != 0 {
		all[at(n)] = 3
	}
	return all
}

// footfall runs in a directory as a user would, and returns the exit status and
// what it says.
func (w *patchWorld) footfall(s patchStyle, args ...string) (status int, said string) {
	w.t.Helper()
	here, err := os.Getwd()
	if err != nil {
		w.t.Fatal(err)
	}
	stderr := os.Stderr
	defer func() {
		os.Stderr = stderr
		if err := os.Chdir(here); err != nil {
			w.t.Fatal(err)
		}
	}()
	cwd := filepath.Join(w.dir, cmp.Or(s.cwd, "work"))
	if err := os.Chdir(cwd); err != nil {
		w.t.Fatal(err)
	}
	w.t.Setenv("PWD", cwd) // as shells do, with the link
	if s.hook {
		dir := strings.TrimSpace(w.git("rev-parse", "--absolute-git-dir"))
		for name, value := range map[string]string{"GIT_DIR": dir, "GIT_INDEX_FILE": dir + "/index", "GIT_PREFIX": "lib/"} {
			os.Setenv(name, value)
			defer os.Unsetenv(name)
		}
	}
	name := filepath.Join(w.dir, "stderr")
	if os.Stderr, err = os.Create(name); err != nil {
		w.t.Fatal(err)
	}
	status = run(slices.Concat([]string{"footfall", "--no-config"}, args, []string{filepath.Join(w.dir, "build")}))
	os.Stderr.Close()
	text, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return status, string(text)
}

// changedInReport returns the changed lines of a report in JSON, and whether
// they ran.
func (w *patchWorld) changedInReport(s patchStyle, name string) map[string]bool {
	f, err := os.Open(name)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	var report struct {
		Files []struct {
			File  string
			Lines []struct {
				Line    int
				Count   int64
				Changed bool
			}
		}
	}
	if err := json.NewDecoder(bufio.NewReader(f)).Decode(&report); err != nil {
		w.t.Fatal(err)
	}
	changed := make(map[string]bool)
	for _, f := range report.Files {
		path := f.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.dir, cmp.Or(s.cwd, "work"), path)
		}
		name := strings.TrimPrefix(path, w.top+"/")
		for _, l := range f.Lines {
			if l.Changed {
				changed[fmt.Sprintf("%s:%d", name, l.Line)] = l.Count > 0
			}
		}
	}
	return changed
}

// compareSubversion and compareMercurial compare with what these write of the
// same change. They have no renames here; which lines differ git says.
func (w *patchWorld) compareSubversion() {
	dir := filepath.Join(w.dir, "svn")
	if w.number == 1 {
		command(w.t, w.dir, "svnadmin", "create", "svn-repository")
		command(w.t, w.dir, "svn", "-q", "checkout", "file://"+w.dir+"/svn-repository", "svn")
	}
	w.history(dir, ".svn", func() {
		command(w.t, dir, "sh", "-c", `svn status | sed -n 's/^!       //p' | tr '\n' '\0' | xargs -0r -I{} svn -q delete --force '{}@'; svn -q add --force --no-ignore .`)
	}, func() { command(w.t, dir, "sh", "-c", "svn -q commit -m x && svn -q update") }, "svn diff", "svn", "diff")
}

func (w *patchWorld) compareMercurial() {
	dir := filepath.Join(w.dir, "hg")
	if w.number == 1 {
		command(w.t, w.dir, "hg", "init", "hg")
	}
	add := func() { command(w.t, dir, "hg", "-q", "addremove", "-s", "100") }
	commit := func() { command(w.t, dir, "hg", "-q", "commit", "-u", "n", "-m", "x") }
	if w.number%2 == 0 {
		w.history(dir, ".hg", add, commit, "hg diff", "hg", "diff")
	} else {
		w.history(dir, ".hg", add, commit, "hg diff --config diff.noprefix", "hg", "diff", "--config", "diff.noprefix=true")
	}
}

// history commits the last version, then compares with how that changed.
func (w *patchWorld) history(dir, keep string, add, commit func(), name, program string, args ...string) {
	w.before()
	for _, from := range []string{"before", "work"} {
		command(w.t, dir, "find", ".", "-mindepth", "1", "-maxdepth", "1", "!", "-name", keep, "-exec", "rm", "-r", "{}", "+")
		command(w.t, filepath.Join(w.dir, from), "find", ".", "-mindepth", "1", "-maxdepth", "1", "!", "-name", ".git", "-exec", "cp", "-r", "{}", dir, ";")
		add()
		if from == "before" {
			commit()
		}
	}
	patch := filepath.Join(w.dir, "x.patch")
	writeFile(w.t, patch, w.output(dir, program, args...))
	s := patchStyle{name: name, one: func(w *patchWorld, name string) string {
		return w.output(dir, program, append(args, name)...)
	}}
	w.check(s, patch, w.changed(s))
}

// compareDiffCover compares with what diff-cover says of footfall's tracefile.
// It misses names that git quotes.
func (w *patchWorld) compareDiffCover() {
	s := patchStyle{name: "diff-cover"}
	total, missed := 0, 0
	for name, lines := range w.changed(s) {
		if strings.ContainsAny(name, "\\\"\t\u00e4") {
			continue
		}
		for _, line := range lines {
			if ran, code := w.ran[name][line]; code {
				if total++; !ran {
					missed++
				}
			}
		}
	}
	info, report := filepath.Join(w.dir, "x.info"), filepath.Join(w.dir, "x.json")
	if status, said := w.footfall(s, "report", "--output", "lcov1="+info); status != 0 {
		w.t.Fatal(said)
	}
	command(w.t, w.top, "diff-cover", "-q", info, "--compare-branch", "HEAD~1", "--json-report", report)
	text, err := os.ReadFile(report)
	if err != nil {
		w.t.Fatal(err)
	}
	var found struct {
		Total  int `json:"total_num_lines"`
		Missed int `json:"total_num_violations"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		w.t.Fatal(err)
	}
	right := found.Total == total && found.Missed == missed
	w.results.add("diff-cover", total, right)
	if !right {
		w.t.Errorf("seed %d, commit %d: diff-cover says %d of %d changed lines did not run, git and gcov %d of %d\n%s", *patchSeed, w.number, found.Missed, found.Total, missed, total, strings.Join(w.log, "\n"))
	}
}
