package source

import (
	"path/filepath"
	"testing"
)

func TestGlob(t *testing.T) {
	const root = "/home/me/vendor/project"
	for _, test := range []struct {
		pattern, name string // name: from the root, or absolute
		want          bool
	}{
		{"a.c", "a.c", true},
		{"a.c", "src/a.c", true},
		{"a.c", "src/ba.c", false},
		{"*.h", "src/x/a.h", true},
		{"*.h", "/usr/include/stdio.h", true},
		{"*.h", "a.hh", false},
		{"a?.c", "ab.c", true},
		{"a?.c", "a/.c", false},
		{"src/*.c", "src/a.c", true},
		{"src/*.c", "src/x/a.c", false},
		{"src/*", "src/x/a.c", false},
		{"src/**", "src/x/a.c", true},
		{"src/**/a.c", "src/a.c", true},
		{"src/**/a.c", "src/x/y/a.c", true},
		{"src/**/a.c", "src/xa.c", false},
		{"**/a.c", "a.c", true},
		{"**/x/*", "src/x/a.c", true},
		{"**", "/usr/include/stdio.h", true},
		{"src", "src/x/a.c", true},
		{"x", "src/x/a.c", true},
		{"x/", "src/x/a.c", true},
		{"x/", "src/x", false},
		{"src/x", "src/x/a.c", true},
		{"src/x", "src/xy/a.c", false},
		{"rc/x", "src/x/a.c", false},
		{"vendor", "src/a.c", false}, // the root is below a vendor
		{"vendor", "vendor/a.c", true},
		{"/home/me/**", "src/a.c", true},
		{"/home/me/vendor/project/src", "src/a.c", true},
		{"/usr/include", "/usr/include/sys/cdefs.h", true},
		{"./a.c", "a.c", true},
		{"./a.c", "src/a.c", false},
		{"../other/", "/home/me/vendor/other/b.c", true},
		{"*.{c,h}", "src/a.h", true},
		{"*.{c,h}", "src/a.o", false},
		{"{src,lib}/**/*.c", "lib/x/a.c", true},
		{"[a-c].c", "b.c", true},
		{"[!a-c].c", "b.c", false},
		{"[!a-c].c", "d.c", true},
		{`\*.c`, "*.c", true},
		{`\*.c`, "a.c", false},
		{"a+b.c", "a+b.c", true},
		{"a+b.c", "aab.c", false},
		{"a,b.c", "a,b.c", true},
		{"**.c", "x/a.c", true},
		{"é?.c", "éü.c", true},
		{"a}.c", "a}.c", true},
	} {
		g, err := newGlob(test.pattern, root)
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		path := test.name
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		if got := g.match(path, test.name); got != test.want {
			t.Errorf("%q matches %q: %v, want %v", test.pattern, test.name, got, test.want)
		}
	}
	for _, bad := range []string{"", "/", "[a", "{a,b", `a\`, "[z-a]", "[]"} {
		if _, err := newGlob(bad, root); err == nil {
			t.Errorf("pattern %q: no error", bad)
		}
	}
}
