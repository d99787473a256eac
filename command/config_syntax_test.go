package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestTomlStatements(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // without empty ones
	}{
		{"a = 1\nb = \"x\"\n", []string{"a = 1", "b = \"x\""}},
		{"a = [ # ]\n'x]', \"\\\"]\",\n]\n[t]\nb.c = {d = 1}", []string{"a = [ # ]\n'x]', \"\\\"]\",\n]", "[t]", "b.c = {d = 1}"}},
		{"a = \"\"\"\n[\\\"\"\"\"\"\nb = ''''[\n'''\nc = ''\n", []string{"a = \"\"\"\n[\\\"\"\"\"\"", "b = ''''[\n'''", "c = ''"}},
		{"a = \"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t\" # [[[\n", []string{"a = \"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t\" # [[["}},
	} {
		var all map[string]any
		if _, err := toml.Decode(c.text, &all); err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		list, err := tomlStatements(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		var got []string
		for _, s := range list {
			if text := strings.TrimSpace(s.text); text != "" {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q:\n%q\nexpected\n%q", c.text, got, c.want)
		}
	}
	for _, c := range []struct{ text, err string }{
		{"\na = " + strings.Repeat("[", 60000), "2: brackets within brackets"},
		{"a = " + strings.Repeat("{a=", 20000), "1: brackets within brackets"},
		{strings.Repeat("a.", 30000) + "b = 1", "1: a key of more than 16 parts"},
		{"[" + strings.Repeat("'a'.", 20) + "b]", "1: a key of more than 16 parts"},
	} {
		if _, err := tomlStatements(c.text); err == nil || !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%.20q: %v", c.text, err)
		}
	}
}

// FuzzTomlStatements checks that what is TOML as a whole is so in its statements,
// and that nothing is lost between them.
func FuzzTomlStatements(f *testing.F) {
	for _, text := range []string{"a = 1\n", "a = [\n'''x\n''', \"y\"]\n[t.\"u v\"]\nb = 1.5\n", "a.b = {c = \"\"\"\"\"\"}\n", "a = 1979-05-27T07:32:00.999Z # x\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := tomlStatements(text)
		if err != nil {
			return
		}
		whole := ""
		for _, s := range list {
			if s.line != 1+strings.Count(whole, "\n") {
				t.Errorf("line %d of %q", s.line, s.text)
			}
			whole += s.text
		}
		if whole != text {
			t.Errorf("%q became %q", text, whole)
		}
		var values map[string]any
		if _, err := toml.Decode(text, &values); err != nil {
			return
		}
		for _, s := range list {
			if _, err := toml.Decode(s.text, &values); err != nil {
				t.Errorf("%q of %q: %v", s.text, text, err)
			}
		}
	})
}
