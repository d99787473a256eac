//go:build linux

package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocsBlocks holds that each block of the pages for users is one that TestDocs runs, or says why it is not
// run, by a reason whose files exist; and that footfall would take each of its commands in the blocks.
func TestDocsBlocks(t *testing.T) {
	blocks, commands := 0, 0
	for _, page := range userPages(t) {
		text, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readPage(string(text)); err != nil {
			t.Errorf("%s: %v", page, err)
		}
		for _, m := range notRun.FindAllStringSubmatch(string(text), -1) {
			for _, file := range reasonFile.FindAllString(m[1], -1) {
				if _, err := os.Stat(filepath.Join("..", file)); err != nil {
					t.Errorf("%s: not run: %s: %v", page, m[1], err)
				}
			}
		}
		for _, block := range codeBlock.FindAllString(string(text), -1) {
			blocks++
			for _, argv := range footfallCommands(block) {
				commands++
				if err := wouldTake(argv); err != nil {
					t.Errorf("%s: %q: %v", page, argv, err)
				}
			}
		}
		if m := indentedCommand.FindString(string(text)); m != "" {
			t.Errorf("%s: a command that is not in a block of ```: %s", page, m)
		}
	}
	if blocks < 100 || commands < 120 {
		t.Errorf("only %d blocks and %d commands were found", blocks, commands)
	}
}

var (
	notRun          = regexp.MustCompile(`(?m)^<!-- not run: (.+) -->$`)
	reasonFile      = regexp.MustCompile(`\b(?:testdata|scripts|recipes|command)/[\w./-]*\w`)
	indentedCommand = regexp.MustCompile(`(?m)^ {4,}(?:[$#] )?footfall .*$`)
	promptLine      = regexp.MustCompile(`(?m)^[ \t]*[$#] ((?:.*\\\n)*.*)$`)
	assignment      = regexp.MustCompile(`^\w+=`)
)

// footfallCommands are the arguments of each footfall that a block calls, by lines that begin with a prompt. Within
// quotes it is not looked for, but what stands for a command there is taken for an argument.
func footfallCommands(block string) (argvs [][]string) {
	for _, m := range promptLine.FindAllStringSubmatch(block, -1) {
		for _, words := range shellCommands(strings.ReplaceAll(m[1], "\\\n> ", " ")) {
			for len(words) > 0 && (assignment.MatchString(words[0]) || slices.Contains([]string{"!", "if", "do", "then", "exec", "sudo"}, words[0])) {
				words = words[1:]
			}
			if len(words) > 0 && words[0] == "footfall" {
				argvs = append(argvs, words[1:])
			}
		}
	}
	return argvs
}

// shellCommands takes apart a line of a shell: words by commands, without redirections.
func shellCommands(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, redirected := false, false
	endWord := func() {
		if inWord && !redirected {
			words = append(words, word.String())
		}
		if inWord {
			redirected = false
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words, redirected = nil, false
	}
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			escaped = false
			word.WriteRune(r)
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\\':
			escaped, inWord = true, true
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			endCommand()
			return commands
		case r == ' ' || r == '\t' || r == '\n':
			endWord()
		case r == '|' || r == ';' || r == '&' || r == '(' || r == ')' || r == '`':
			if r == '&' && redirected { // 2>&1
				inWord = true
				continue
			}
			endCommand()
		case r == '<' || r == '>':
			if w := word.String(); strings.Trim(w, "0123456789") == "" {
				word.Reset()
				inWord = false
			}
			endWord()
			redirected = true
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	endCommand()
	return commands
}

// wouldTake returns what the command that argv chooses has against its options, and their number of arguments.
func wouldTake(argv []string) error {
	root, _ := newRootCommand(commands())
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	cmd, rest, err := root.Find(argv)
	if err != nil || cmd.DisableFlagParsing {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestDocsBlocksFindsMistakes tries what TestDocsBlocks holds with commands that are wrong.
func TestDocsBlocksFindsMistakes(t *testing.T) {
	block := "```console\n$ x=1 footfall report --output 'json=a b' 2>/dev/null | wc -l && footfall live a --oops # --not\nfootfall no\n# footfall diff one \\\n> two >out\n```"
	got := footfallCommands(block)
	want := [][]string{{"report", "--output", "json=a b"}, {"live", "a", "--oops"}, {"diff", "one", "two"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("%q", got)
	}
	for argv, good := range map[string]bool{
		"report --output json": true, "live a --oops": false, "diff one two": true, "diff one": false,
		"live a --duration soon": false, "nothing": false,
	} {
		if err := wouldTake(strings.Fields(argv)); (err == nil) != good {
			t.Errorf("%s: %v", argv, err)
		}
	}
}
