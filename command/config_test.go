package command

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
)

// TestConfigValues has a wrong value for each option that not any text will do
// for. A new option is either in wrong or in anyText.
func TestConfigValues(t *testing.T) {
	wrong := map[string]string{
		"include": `["["]`, "exclude": `["a", "["]`, "path-map": `{a = ""}`, "exclude-lines": `"(("`, "exclude-branches": `["a", "*"]`, "exclude-functions": `""`,
		"marker-prefix": `"A B"`, "output": `["json=x", "foo=x"]`, "fail-under": `"lines=80,x=1"`, "fail-over": `{lost = -1}`, "tests-for": `":1"`,
		"watch": `"soon"`, "serve": `"here"`, "ran": `"blocks"`, "reset": `"of"`, "for": `"calls,x"`, "update": `"no"`, "only": `"["`, "not": `"["`, "cpu": `"z80"`, "duration": `"-1s"`, "sort": `"size"`,
		"profile function": `"["`, "frequency": `30000`, "profile top": `-1`, "pid": `-1`, "function": `"/(/"`, "notrace": `"/(/"`, "graph-from": `"/(/"`,
		"args": `"f:arg0"`, "thread": `"["`, "buffer": `3`, "depth": `2000`, "min-duration": `"1"`, "sample": `"1/0"`, "way": `["jumps"]`, "events": `-1`, "top": `"many"`, "max-input": `0`,
		"server": `"here"`, "store": `"mongo:x"`, "label": `"x"`, "patience": `"soon"`, "listen": `"here"`, "keep-windows": `"long"`, "keep-days": `"-1"`, "rate": `"fast"`, "every": `"0s"`, "spool-limit": `-1`, "max-sources": `-1`, "agent label": `"x"`, "agent ran": `"["`, "agent release": `"nginx="`,
		"in": `"space"`, "from": `"then"`, "to": `"2026-13-01"`, "days": `0`, "by": `"colour"`,
	}
	anyText := []string{"root", "object-directory", "object", "diff-base", "source-diff", "test", "tests-for-diff", "dump", "hard-reset", "cc", "runtime", "instrument output", "event", "read",
		"release", "build", "host", "job", "token-file", "tokens", "tls-cert", "tls-key", "client-ca", "codeowners", "cert", "key", "ca", "name", "backup", "since", "until", "codeowners", "diff", "spool"}
	root, _ := newRootCommand(commands())
	for _, cmd := range root.Commands() {
		if !configurable(cmd) {
			continue
		}
		eachConfigFlag(cmd, func(f *pflag.Flag) {
			name := cmd.Name() + " " + f.Name
			value, known := wrong[name]
			if !known && !slices.Contains(anyText, name) {
				value, known = wrong[f.Name]
			}
			switch {
			case f.Value.Type() == "bool":
				value = `"yes"`
			case !known && (slices.Contains(anyText, name) || slices.Contains(anyText, f.Name)):
				return
			case !known:
				t.Errorf("%s: no wrong value", name)
			}
			c := &config{name: "footfall.toml", dir: "/", root: root}
			if err := c.parse(fmt.Sprintf("\n[%s]\n%s = %s\n", cmd.Name(), f.Name, value)); err != nil {
				t.Fatal(name, err)
			}
			if err := c.check(); err == nil || !strings.HasPrefix(err.Error(), "footfall.toml:3: ") {
				t.Errorf("%s = %s: %v", name, value, err)
			}
		})
	}
}

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
	f.Add("\ufeff[live]\nexclude = \"a\" # ]\n[report]\nlist = ['''\n[trace]''',\n\"]\"]\n")
	f.Add("[[live.x]]\n")
	f.Add("[report.fail-under]\n[live.x]\n")
	f.Add("report.verbose = true\n[report.fail-under]\nlines = 1\n[[live]]\nx = '''\n[a]'''")
	root, _ := newRootCommand(commands())
	f.Fuzz(func(t *testing.T, text string) {
		c := &config{name: "footfall.toml", dir: "/", root: root}
		if c.parse(text) != nil {
			return
		}
		_ = c.check()
		checkSettings(t, c, text)
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

// checkSettings compares the settings with what the text says as a whole.
func checkSettings(t *testing.T, c *config, text string) {
	var all map[string]any
	if _, err := toml.Decode(text, &all); err != nil {
		return
	}
	got, want := make(map[string]any), make(map[string]any)
	for _, s := range c.settings {
		got[s.command+" "+s.key] = s.value
	}
	for name, value := range all {
		inner, isTable := value.(map[string]any)
		if !isTable || c.command(name) == nil {
			want[" "+name] = value
			continue
		}
		for key, value := range inner {
			want[name+" "+key] = value
		}
	}
	for name, value := range want {
		_, isTable := value.(map[string]any)
		if _, said := got[name]; !said {
			t.Errorf("%q is not read", name)
		} else if !isTable && !reflect.DeepEqual(got[name], value) {
			t.Errorf("%q is %v, read as %v", name, value, got[name])
		}
	}
}
