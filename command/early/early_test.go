//go:build linux

package early

import (
	"slices"
	"strings"
	"testing"

	"footfall/compile/instrument"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		words    string
		args     string // "": left to main
		purposes string
		update   instrument.ProfileUpdate
		verbose  bool
	}{
		{"-- gcc -c x.c", "gcc -c x.c", "calls", instrument.Thread, false},
		{"--update=thread -v -- gcc -v", "gcc -v", "calls", instrument.Thread, true},
		{"--update plain --update atomic --verbose -- cc", "cc", "calls", instrument.Atomic, true},
		{"--for coverage,trace --for=calls -- g++ -- x", "g++ -- x", "coverage trace calls", instrument.Thread, false},
		{words: "gcc -c x.c"},
		{words: "--help"},
		{words: "-v --help -- gcc"},
		{words: "--only a -- gcc"},
		{words: "--not=a -- gcc"},
		{words: "--config x -- gcc"},
		{words: "--update"},
		{words: "--update none -- gcc"},
		{words: "--verbose=false -- gcc"},
		{words: "--"},
		{words: ""},
	} {
		o, args := parse(strings.Fields(test.words))
		if test.args == "" {
			if len(args) > 0 {
				t.Errorf("%s: %q, want none", test.words, args)
			}
			continue
		}
		if strings.Join(args, " ") != test.args {
			t.Errorf("%s: %q, want %q", test.words, args, test.args)
			continue
		}
		if !slices.Equal(o.Purposes, strings.Fields(test.purposes)) || o.Update != test.update || o.Verbose != test.verbose {
			t.Errorf("%s: %+v", test.words, o)
		}
	}
}

func TestCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, argv := range []string{"/usr/bin/gcov cc -- gcc", "footfall report -- gcc", "footfall", "footfall cc --for luck -- gcc"} {
		if _, args := command(strings.Fields(argv)); args != nil {
			t.Errorf("%s: %q", argv, args)
		}
	}
	t.Setenv("FOOTFALL_CC", "--update thread")
	o, args := command([]string{"/opt/footfall-gcc-12", "-c", "x.c"})
	if want := []string{"gcc-12", "-c", "x.c"}; !slices.Equal(args, want) || o.Update != instrument.Thread {
		t.Errorf("footfall-gcc-12: %q, want %q", args, want)
	}
}
