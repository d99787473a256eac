package source

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSourcesResolve(t *testing.T) {
	for _, test := range []struct {
		about     string
		o         Options
		cwd, name string
		want      string
		keep      bool
	}{
		{"recorded directory", Options{Root: "/p"}, "/p/build", "../src/./a.c", "/p/src/a.c", true},
		{"absolute name", Options{Root: "/p"}, "/p/build", "/q//a.c", "/q/a.c", true},
		{"no directory recorded", Options{Root: "/p"}, "", "src/a.c", "/p/src/a.c", true},
		{"map", Options{Root: "/p", PathMaps: []string{"/ci/build=/p"}}, "/ci/build/o", "../a.c", "/p/a.c", true},
		{"map of whole names only", Options{Root: "/p", PathMaps: []string{"/ci/bui=/p"}}, "/ci/build", "a.c", "/ci/build/a.c", true},
		{"first map that fits", Options{Root: "/p", PathMaps: []string{"/ci=/x", "/ci/b=/y"}}, "/ci/b", "a.c", "/x/b/a.c", true},
		{"map of a relative directory", Options{Root: "/p", PathMaps: []string{"src=/p/s"}}, "", "./src/a.c", "/p/s/a.c", true},
		{"system header", Options{Root: "/p"}, "/p", "/usr/include/c++/12/vector", "/usr/include/c++/12/vector", false},
		{"compiler's header elsewhere", Options{Root: "/p"}, "/p", "/opt/gcc/include/c++/12/vector", "/opt/gcc/include/c++/12/vector", false},
		{"locally installed header", Options{Root: "/p"}, "/p", "/usr/local/include/x.h", "/usr/local/include/x.h", false},
		{"sources in /usr/src", Options{Root: "/p"}, "/p", "/usr/src/x/include/x.h", "/usr/src/x/include/x.h", true},
		{"asked for", Options{Root: "/p", SystemHeaders: true}, "/p", "/usr/include/x.h", "/usr/include/x.h", true},
		{"included", Options{Root: "/p", Include: []string{"**/c++/**"}}, "/p", "/usr/include/c++/12/vector", "/usr/include/c++/12/vector", true},
		{"the project lies there", Options{Root: "/usr/include/p"}, "/usr/include/p", "a.h", "/usr/include/p/a.h", true},
		{"the root is everything", Options{Root: "/"}, "/", "usr/include/a.h", "/usr/include/a.h", false},
		{"not included", Options{Root: "/p", Include: []string{"src/**"}}, "/p", "t/a.c", "/p/t/a.c", false},
		{"excluded though included", Options{Root: "/p", Include: []string{"src/**"}, Exclude: []string{"*_test.c"}}, "/p", "src/a_test.c", "/p/src/a_test.c", false},
	} {
		s, err := NewSources(test.o)
		if err != nil {
			t.Errorf("%s: %v", test.about, err)
			continue
		}
		if path, keep := s.Resolve(test.cwd, test.name); path != test.want || keep != test.keep {
			t.Errorf("%s: %q in %q is %q (kept: %v), want %q (%v)", test.about, test.name, test.cwd, path, keep, test.want, test.keep)
		}
	}
}

func TestSourcesOfUnrecordedDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "p/src/x"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p/src/a.c", "p/src/x/b.c", "p/b.c"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewSources(Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ notes, name, want string }{
		{"p/src", "a.c", "p/src/a.c"},
		{"p/src", "src/a.c", "p/src/a.c"},
		{"p/build/o", "../src/x/b.c", "p/src/x/b.c"},
		{"p/src/x", "b.c", "p/src/x/b.c"},
		{"p/src", "b.c", "p/b.c"},
		{"p/src", "gone.c", "p/src/gone.c"},
		{"p/src", "/q/a.c", "/q/a.c"},
	} {
		path, _ := s.Resolve(unrecorded+filepath.Join(dir, test.notes), test.name)
		if got := s.Shown(path); got != test.want {
			t.Errorf("%q of notes in %s is %s, want %s", test.name, test.notes, got, test.want)
		}
	}
}

func TestSourcesShown(t *testing.T) {
	s, err := NewSources(Options{Root: "/p/q"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/p/q/a.c": "a.c", "/p/q/r/a.c": "r/a.c", "/p/qr/a.c": "/p/qr/a.c", "/p/a.c": "/p/a.c", "/p/q": "/p/q",
	} {
		if got := s.Shown(path); got != want {
			t.Errorf("%s is shown as %s, want %s", path, got, want)
		}
	}
}

func TestSourcesCountOmittedOnce(t *testing.T) {
	s, err := NewSources(Options{Root: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Resolve("/p", "/usr/include/a.h")
		s.Resolve("/p/x", "/usr/include/../include/a.h")
		s.Resolve("/p", "a.c")
	}
	if got := s.OmittedSystemHeaders(); got != 1 {
		t.Errorf("%d system headers left out, want 1", got)
	}
}

func TestSourceOptionsChecked(t *testing.T) {
	for _, o := range []Options{
		{PathMaps: []string{"/a"}}, {PathMaps: []string{"=/a"}}, {PathMaps: []string{"/a="}}, {Include: []string{"["}}, {Exclude: []string{"{"}},
	} {
		if _, err := NewSources(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
