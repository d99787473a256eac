package main

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"report", "live", "exclude", "exclude-lines", "output", "list"}
	for word, want := range map[string]string{
		"reprot": "report", "exclud": "exclude", "outptu": "output", "exclude-line": "exclude-lines", "lsit": "list", "x": "", "": "", "something": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest to %q: %q, want %q", word, got, want)
		}
	}
}

// FuzzConfig checks that no file makes the reader of configurations fail in
// another way than by an error, and that each setting has its line.
func FuzzConfig(f *testing.F) {
	f.Add("root = \".\"\n[report]\noutput = [\n\t\"text\", # one\n]\nfail-under = {lines = 80}\nfail-under.branches = 1.5\n")
	f.Add("report.verbose = true\n[report.fail-under]\nlines = 1\n[[live]]\nx = '''\n[a]'''")
	root, _ := newRootCommand(commands)
	f.Fuzz(func(t *testing.T, text string) {
		c := &config{name: "footfall.toml", dir: "/", root: root}
		if c.parse(text) != nil {
			return
		}
		_ = c.check()
		lines := 1
		for _, b := range []byte(text) {
			if b == '\n' {
				lines++
			}
		}
		for _, s := range c.settings {
			if s.line < 1 || s.line > lines {
				t.Errorf("%q is said to be in line %d of %d", s.key, s.line, lines)
			}
			_, _ = textsOf(s.value)
		}
	})
}
