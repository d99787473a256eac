//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"footfall/process/needs"
)

// TestDocs does what README.md and the pages in docs say, from top to bottom, each in a shell of its
// own and a directory with what testdata/pages has for the page, of which "setup" is done first; and
// compares what is printed. A page has
//
//	```console    commands after "$ ", a line ending in \ goes on; what they print; "..." stands for any lines
//	```c          a file, whose first line is a comment with its name
//	<!-- numbers vary -->       before a console block: numbers, bars and widths are not compared
//	<!-- not run: REASON -->    before a block: it is not
//
// A command must succeed, unless the next is "echo $?". Pages say how long to sleep; here it is three
// times as long, for busy machines. -update writes what is printed into the pages, where no "..." is.
// FOOTFALL is the footfall to try, for scripts/play-docs (default: this one).
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs for seconds")
	}
	t.Parallel() // it waits most of the time
	if !mayTrace() {
		needs.Skip(t, needs.Ptrace, "processes may not be stopped")
	}
	for _, page := range userPages(t) {
		if page == "CONTRIBUTING.md" {
			continue // how to build this
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			name := filepath.Join("..", page)
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := readPage(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if len(steps) == 0 {
				return
			}
			for _, tool := range append([]string{"gcc", "unshare"}, pageTools[page]...) {
				if _, err := exec.LookPath(tool); err != nil {
					needs.Skip(t, needs.Tools, err)
				}
			}
			if ok, _ := scriptCondition("fuse"); !ok && slices.Contains(pageTools[page], "fusermount3") {
				needs.Skip(t, needs.FUSE, "/dev/fuse and fusermount3")
			}
			printed := playPage(t, page, steps)
			if *update {
				text = []byte(updatedPage(string(text), steps, printed))
				if err := os.WriteFile(name, text, 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			comparePage(t, page, steps, printed)
		})
	}
}

// pageTools are the programs that commands of pages call, beside what every system has and gcc.
var pageTools = map[string][]string{
	"README.md":        {"clang"},
	"docs/diff.md":     {"git"},
	"docs/llvm.md":     {"clang"},
	"docs/mount.md":    {"fusermount3", "lcov", "gcovr"},
	"docs/report.md":   {"git"},
	"docs/tutorial.md": {"git"},
}

// userPages are the pages that are written for users, who do with footfall what they say.
func userPages(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			switch filepath.Base(page) {
			case "architecture.md", "benchmarks.md", "rationale.md": // for who works on it
			default:
				pages = append(pages, strings.TrimPrefix(page, "../"))
			}
		}
	}
	return pages
}

// A pageStep is a command of a page, or a file that it shows.
type pageStep struct {
	line       int    // in the page
	file, text string // of a file
	command    string
	prints     []string
	varies     bool
}

var (
	beforeBlock = regexp.MustCompile(`^<!-- (numbers vary|not run: .+) -->$`)
	fileName    = regexp.MustCompile(`^(?://|#|/\*) ([\w./-]+\.\w+)(?: \*/)?$`)
)

// readPage returns what a page has one do.
func readPage(page string) (steps []pageStep, err error) {
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		language, ok := strings.CutPrefix(lines[i], "```")
		if !ok {
			continue
		}
		note := ""
		if i > 0 {
			if m := beforeBlock.FindStringSubmatch(lines[i-1]); m != nil {
				note = m[1]
			}
		}
		first := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		block := lines[first:min(i, len(lines))]
		switch {
		case strings.HasPrefix(note, "not run"):
		case language == "console":
			commands, err := readCommands(block, first+1)
			if err != nil {
				return nil, err
			}
			for _, c := range commands {
				c.varies = note == "numbers vary"
				steps = append(steps, c)
			}
		case len(block) > 0 && fileName.MatchString(block[0]) && !strings.HasPrefix(note, "numbers"):
			steps = append(steps, pageStep{line: first, file: fileName.FindStringSubmatch(block[0])[1], text: strings.Join(block, "\n") + "\n"})
		default:
			return nil, fmt.Errorf("line %d: the block has no commands and no name of a file; say why it is not run", first)
		}
	}
	return steps, nil
}

// readCommands reads a console block that begins in a line.
func readCommands(block []string, line int) (steps []pageStep, err error) {
	for i := 0; i < len(block); i++ {
		if command, ok := strings.CutPrefix(block[i], "$ "); ok {
			s := pageStep{line: line + i, command: command}
			for strings.HasSuffix(s.command, `\`) && i+1 < len(block) {
				i++
				s.command += "\n" + strings.TrimPrefix(block[i], "> ")
			}
			steps = append(steps, s)
			continue
		}
		if len(steps) == 0 {
			return nil, fmt.Errorf("line %d: what is printed has no command before it", line+i)
		}
		last := &steps[len(steps)-1]
		last.prints = append(last.prints, block[i])
	}
	return steps, nil
}

const pageTime = 5 * time.Minute

// playPage runs the commands of a page and returns what each printed.
func playPage(t *testing.T, page string, steps []pageStep) (printed [][]string) {
	dir := t.TempDir()
	bin := pagePrograms(t)
	// Each command ends with a line that tells its number and status, which the next still sees.
	var script strings.Builder
	given := filepath.Join("../testdata/pages", strings.TrimSuffix(filepath.Base(page), ".md"))
	if _, err := os.Stat(given); err == nil {
		if err := os.CopyFS(dir, os.DirFS(given)); err != nil {
			t.Fatal(err)
		}
		root, err := filepath.Abs("..")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&script, "ROOT='%s'\nset -e\n. ./setup\nset +e\nrm setup\n", root)
	}
	for i, s := range steps {
		if s.file != "" {
			fmt.Fprintf(&script, "cat >%s <<'end of the file'\n%send of the file\n", s.file, s.text)
			continue
		}
		fmt.Fprintf(&script, "%s\nset -- $?; printf '\\n@@ %d %%d\\n' $1; (exit $1)\n", s.command, i)
	}
	script.WriteString("kill $(jobs -p) 2>/dev/null\n:\n")
	name := filepath.Join(bin, "script")
	if err := os.WriteFile(name, []byte(script.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pageTime)
	defer cancel()
	// Where it may be, the page has process ids of its own: what has the same name elsewhere is not
	// seen, and all that it started ends with it.
	argv := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", name}
	if exec.Command(argv[0], "--pid", "--fork", "--mount-proc", "true").Run() != nil {
		argv = argv[5:]
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME="+dir, "XDG_RUNTIME_DIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", page, err)
	}
	return readPrinted(t, page, steps, strings.Split(string(out), "\n"))
}

// pagePrograms makes a directory with programs of a page that are others here.
func pagePrograms(t *testing.T) (bin string) {
	bin = t.TempDir()
	for name, candidates := range map[string][]string{
		"footfall": {os.Getenv("FOOTFALL")},
		"clang":    {"clang", "clang-19", "clang-16", "clang-14"},
	} {
		for _, c := range candidates {
			if path, err := exec.LookPath(c); err == nil {
				if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	sleep := fmt.Sprintf("#!/bin/sh\nexec %s $1 $1 $1\n", path)
	if err := os.WriteFile(filepath.Join(bin, "sleep"), []byte(sleep), 0o777); err != nil {
		t.Fatal(err)
	}
	return bin
}

var pageMark = regexp.MustCompile(`^@@ (\d+) (\d+)$`)

// readPrinted tells apart what the commands of a page printed, which ended with marks.
func readPrinted(t *testing.T, page string, steps []pageStep, lines []string) [][]string {
	t.Helper()
	printed := make([][]string, len(steps))
	done := -1
	var got []string
	for _, line := range lines {
		m := pageMark.FindStringSubmatch(line)
		if m == nil {
			got = append(got, line)
			continue
		}
		done, _ = strconv.Atoi(m[1])
		s := steps[done]
		if asks := done+1 < len(steps) && steps[done+1].command == "echo $?"; m[2] != "0" && !asks {
			t.Errorf("%s:%d: %s: exit status %s\n%s", page, s.line, s.command, m[2], strings.Join(got, "\n"))
		}
		for len(got) > 0 && got[len(got)-1] == "" {
			got = got[:len(got)-1]
		}
		printed[done], got = got, nil
	}
	last := len(steps) - 1
	for last >= 0 && steps[last].command == "" {
		last--
	}
	if done != last {
		t.Fatalf("%s: it ended after step %d of %d:\n%s", page, done, last, strings.Join(got, "\n"))
	}
	return printed
}

func comparePage(t *testing.T, page string, steps []pageStep, printed [][]string) {
	t.Helper()
	for i, s := range steps {
		if !samePrinted(s.prints, printed[i], s.varies) {
			t.Errorf("%s:%d: %s\nthe page has:\n%s\n\nprinted:\n%s", page, s.line, s.command, strings.Join(s.prints, "\n"), strings.Join(printed[i], "\n"))
		}
	}
}

// updatedPage is a page with what its commands printed.
func updatedPage(page string, steps []pageStep, printed [][]string) string {
	lines := strings.Split(page, "\n")
	for i, s := range slices.Backward(steps) {
		if s.file != "" || slices.Contains(s.prints, "...") || samePrinted(s.prints, printed[i], s.varies) {
			continue
		}
		from := s.line + strings.Count(s.command, "\n") // the first after the command, from 0
		lines = slices.Replace(lines, from, from+len(s.prints), printed[i]...)
	}
	return strings.Join(lines, "\n")
}

// samePrinted compares lines; want may have "..." for any number of them.
func samePrinted(want, got []string, varies bool) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if strings.TrimSpace(want[0]) == "..." {
		for n := range len(got) + 1 {
			if samePrinted(want[1:], got[n:], varies) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && sameLine(want[0], got[0], varies) && samePrinted(want[1:], got[1:], varies)
}

var (
	varying = regexp.MustCompile(`\b[0-9a-f]{12}\b|[-+!#*@$]? *\d[\d.,:]*( ?[kMG]?B\b|[µnm]?s\b|[kM]\b)?|[░█]+|-{3,}`)
	blanks  = regexp.MustCompile(`\s+`)
)

func sameLine(want, got string, varies bool) bool {
	want, got = strings.TrimRight(want, " "), strings.TrimRight(got, " ")
	if varies {
		for _, s := range []*string{&want, &got} {
			*s = strings.TrimSpace(blanks.ReplaceAllString(varying.ReplaceAllString(*s, " N "), " "))
		}
	}
	return want == got
}

// TestPages tries the comparison of pages with pages that are wrong.
func TestPages(t *testing.T) {
	for _, test := range []struct {
		want, got string
		varies    bool
		same      bool
	}{
		{"a\nb", "a\nb", false, true},
		{"a\nb", "a\nc", false, false},
		{"a", "a\nb", false, false},
		{"a\n...", "a\nb\nc", false, true},
		{"a\n...\nd", "a\nb\nc", false, false},
		{"greet 5", "greet 6", false, false},
		{"greet 5", "greet  66", true, true},
		{"greet 5", "leave 5", true, false},
		{"  1.5 us | greet();", "+ 12.272 us | greet();", true, true},
		{"██░░ 69.2% 9/13", "███░ 70.0% 10/13", true, true},
	} {
		if got := samePrinted(strings.Split(test.want, "\n"), strings.Split(test.got, "\n"), test.varies); got != test.same {
			t.Errorf("%q, %q, varies %t: same is %t", test.want, test.got, test.varies, got)
		}
	}
	steps, err := readPage("text\n```c\n// a.c\nint a;\n```\n<!-- numbers vary -->\n```console\n$ one \\\n> more\n1\n$ two\n```\n<!-- not run: needs a server -->\n```\n$ three\n```\n")
	if err != nil || len(steps) != 3 || steps[0].file != "a.c" || steps[1].command != "one \\\nmore" || !steps[1].varies || !slices.Equal(steps[1].prints, []string{"1"}) || steps[2].line != 11 {
		t.Errorf("%+v, %v", steps, err)
	}
	for _, page := range []string{"```\n$ forgotten\n```\n", "```console\nno command\n```\n"} {
		if _, err := readPage(page); err == nil {
			t.Error(errors.New("no error of " + strconv.Quote(page)))
		}
	}
}

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	codeBlock   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

// installed are the places that packages install beside the pages (scripts/packaging/nfpm.yaml).
var installed = regexp.MustCompile(`^\.\./(docs/|recipes(/|$)|[A-Z]+(\.md)?$)`)

// TestLinks fails where a link of a page leads to no file here, or to none that a package
// has, or to no heading of a page.
func TestLinks(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/commands/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 20 {
		t.Fatalf("only %d pages", len(pages))
	}
	anchors := make(map[string][]string) // of pages
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pageHeading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			anchors[page] = append(anchors[page], anchorOf(m[1]))
		}
	}
	for _, page := range pages {
		text, _ := os.ReadFile(page)
		for _, m := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, ":") { // elsewhere
				continue
			}
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: there is no such file", page, m[1])
			} else if !installed.MatchString(to) {
				t.Errorf("%s: %s: packages do not have that", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors[to], anchor) {
				t.Errorf("%s: %s: there is no such heading", page, m[1])
			}
		}
	}
}

// anchorOf is what a heading is linked by.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

var (
	docsCode    = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]+`|^    [^\n]*")
	docsCommand = regexp.MustCompile("(?m)(?:^ *(?:[$#] )?|`|&& |=\\$\\()footfall ([a-z-]+)((?: [^|;&)#$>\n`]*)?)")
	docsOption  = regexp.MustCompile(`(?:^|[ [])--([a-z][a-z-]*)`)
)

// TestDocsOptions finds commands and options in the pages that footfall has not.
func TestDocsOptions(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	root, _ := newRootCommand(commands())
	root.InitDefaultHelpCmd()
	found := 0
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range docsCode.FindAllString(string(text), -1) {
			for _, m := range docsCommand.FindAllStringSubmatch(code, -1) {
				cmd, _, err := root.Find(m[1:2])
				if err != nil || cmd == root {
					t.Errorf("%s: there is no %q", page, m[0])
					continue
				}
				if cmd.DisableFlagParsing || m[1] == "config" { // the options are another program's, or command's
					continue
				}
				own, _, _ := strings.Cut(m[2], " -- ")
				cmd.InitDefaultHelpFlag()
				for _, option := range docsOption.FindAllStringSubmatch(own, -1) {
					found++
					if cmd.Flags().Lookup(option[1]) == nil && cmd.InheritedFlags().Lookup(option[1]) == nil {
						t.Errorf("%s: %s has no option --%s: %s", page, cmd.CommandPath(), option[1], m[0])
					}
				}
			}
		}
	}
	if found < 150 {
		t.Errorf("only %d options were found in the pages", found)
	}
}
