package find

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/report/source"

	"github.com/google/go-cmp/cmp"
)

// tree makes files of these names in dir; "a.gcno stamp" has that stamp, the
// others "same".
func tree(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		name, stamp, ok := strings.Cut(n, " ")
		if !ok {
			stamp = "same"
		}
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("magcvers"+stamp), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name    string
		files   []string // DIR in them and below is the test's directory with "#" for "/"
		links   []string // links that lead nowhere
		same    []string // "link -> file", "hard link = file"
		paths   []string
		objects []string
		maps    []string
		want    []string // "notes data..." or "problem: FILE: TEXT"
	}{
		{
			name:  "side by side, one never run",
			files: []string{"a.gcno", "a.gcda", "x/a.gcno", "x/a.gcda", "x/b.gcno", ".git/c.gcno"},
			paths: []string{".", "x", "./x/../x"},
			want:  []string{"a.gcno a.gcda", "x/a.gcno x/a.gcda", "x/b.gcno"},
		},
		{
			name:  "single files",
			files: []string{"a.gcno", "a.gcda", "b.gcno", "b.gcda", "c.gcno", "c.gcda", "d.gcno"},
			paths: []string{"a.gcda", "b.gcno", "c.o"},
			want:  []string{"a.gcno a.gcda", "b.gcno b.gcda", "c.gcno c.gcda"},
		},
		{
			name:    "object directory: notes only",
			files:   []string{"build/x/a.gcno", "build/x/a.gcda", "build/x/b.gcno", "run/x/a.gcda"},
			paths:   []string{"run"},
			objects: []string{"build"},
			want:    []string{"build/x/a.gcno run/x/a.gcda", "build/x/b.gcno"},
		},
		{
			name:    "the longest common path",
			files:   []string{"build/x/a.gcno", "build/y/a.gcno", "build/y/x/a.gcno", "run/ci/y/a.gcda", "run/ci/y/x/a.gcda"},
			paths:   []string{"run"},
			objects: []string{"build"},
			want:    []string{"build/x/a.gcno", "build/y/a.gcno run/ci/y/a.gcda", "build/y/x/a.gcno run/ci/y/x/a.gcda"},
		},
		{
			name:    "the stamp decides",
			files:   []string{"build/x/a.gcno one!", "build/y/a.gcno two!", "run/a.gcda two!"},
			paths:   []string{"run"},
			objects: []string{"build"},
			want:    []string{"build/x/a.gcno", "build/y/a.gcno run/a.gcda"},
		},
		{
			name:    "the stamp comes before the path",
			files:   []string{"build/x/a.gcno one!", "build/y/a.gcno two!", "run/x/a.gcda two!"},
			paths:   []string{"run"},
			objects: []string{"build"},
			want:    []string{"build/x/a.gcno", "build/y/a.gcno run/x/a.gcda"},
		},
		{
			name:    "ambiguous",
			files:   []string{"build/x/a.gcno", "build/y/a.gcno", "run/a.gcda"},
			paths:   []string{"run"},
			objects: []string{"build"},
			want: []string{"build/x/a.gcno", "build/y/a.gcno",
				"problem: run/a.gcda: it may belong to build/x/a.gcno or build/y/a.gcno: name the directory of one of them with --object-directory"},
		},
		{
			name:  "two runs",
			files: []string{"build/a.gcno", "build/a.gcda", "run1/build/a.gcda", "run2/build/a.gcda"},
			paths: []string{"."},
			want:  []string{"build/a.gcno build/a.gcda run1/build/a.gcda run2/build/a.gcda"},
		},
		{
			name:  "no notes",
			files: []string{"a.gcda", "b.gcno", "x/b.gcda old!"},
			paths: []string{"."},
			want: []string{"b.gcno",
				"problem: a.gcda: no notes file (.gcno) of that name: name the directory of the object files with --object-directory, or delete what is left of an older build",
				"problem: x/b.gcda: its stamp is not that of b.gcno: if that was rebuilt since the run, delete the data file"},
		},
		{
			name:  "GCOV_PREFIX, notes by the whole path",
			files: []string{"build/x/a.gcno", "run/DIR/build/x/a.gcda"},
			paths: []string{"run"},
			want:  []string{"build/x/a.gcno run/DIR/build/x/a.gcda", "outside: build/x/a.gcno"},
		},
		{
			name:  "-fprofile-dir",
			files: []string{"build/x/a.gcno", "build/b.gcno", "prof/MANGLED#build#x#a.gcda", "prof/MANGLED#build#x#^#b.gcda"},
			paths: []string{"."},
			want:  []string{"build/b.gcno prof/MANGLED#build#x#^#b.gcda", "build/x/a.gcno prof/MANGLED#build#x#a.gcda"},
		},
		{
			name:  "-fprofile-dir with -fprofile-prefix-path",
			files: []string{"build/x/a.gcno", "build/x/b.gcno two!", "build/y/b.gcno", "prof/x#a.gcda", "prof/y#b.gcda", "prof/x#z#^#b.gcda two!", "c#d.gcno", "run/c#d.gcda"},
			paths: []string{"."},
			want:  []string{"build/x/a.gcno prof/x#a.gcda", "build/x/b.gcno prof/x#z#^#b.gcda", "build/y/b.gcno prof/y#b.gcda", "c#d.gcno run/c#d.gcda"},
		},
		{
			name:  "a link to the directory",
			files: []string{"dir/x/a.gcno", "dir/x/a.gcda", "dir/b.gcno"},
			same:  []string{"link -> dir"},
			paths: []string{"dir", "link", "link/x/a.gcda"},
			want: []string{"dir/b.gcno", "dir/x/a.gcno dir/x/a.gcda",
				"problem: link/x/a.gcda: the same file as dir/x/a.gcda, found by a link or a mount: it counts once"},
		},
		{
			name:    "a link to notes, data elsewhere",
			files:   []string{"build/a.gcno", "run/a.gcda"},
			same:    []string{"link -> build"},
			paths:   []string{"run"},
			objects: []string{"link", "build"},
			want:    []string{"build/a.gcno run/a.gcda"},
		},
		{
			name:  "links to files",
			files: []string{"build/a.gcno", "sys/a.gcda", "run/a.gcda", "more/a.gcda"},
			same:  []string{"sys/a.gcno -> build/a.gcno", "run/again.gcda -> run/a.gcda", "again/a.gcda -> run/a.gcda", "hard/a.gcda = more/a.gcda"},
			paths: []string{"."},
			want: []string{"build/a.gcno sys/a.gcda again/a.gcda hard/a.gcda",
				"problem: run/again.gcda: no notes file (.gcno) of that name: name the directory of the object files with --object-directory, or delete what is left of an older build",
				"problem: more/a.gcda: the same file as hard/a.gcda, found by a link or a mount: it counts once",
				"problem: run/a.gcda: the same file as again/a.gcda, found by a link or a mount: it counts once"},
		},
		{
			name:  "equal data of two units made links",
			files: []string{"a.gcno", "a.gcda", "b.gcno"},
			same:  []string{"b.gcda = a.gcda"},
			paths: []string{"."},
			want:  []string{"a.gcno a.gcda", "b.gcno b.gcda"},
		},
		{
			name:    "a kernel's tree from another machine, notes in an object directory",
			files:   []string{"linux/fs/a.gcno", "linux/mm/a.gcno", "copy/ci/linux/fs/a.gcda", "copy/ci/linux/mm/a.gcda"},
			links:   []string{"copy/ci/linux/fs/a.gcno", "copy/ci/linux/mm/a.gcno"},
			paths:   []string{"copy"},
			objects: []string{"linux"},
			want:    []string{"linux/fs/a.gcno copy/ci/linux/fs/a.gcda", "linux/mm/a.gcno copy/ci/linux/mm/a.gcda"},
		},
		{
			name:  "the same, notes by a path map",
			files: []string{"linux/fs/a.gcno", "linux/mm/a.gcno", "linux/mm/b.gcno", "copy/ci/linux/fs/a.gcda", "copy/ci/linux/mm/a.gcda"},
			links: []string{"copy/ci/linux/fs/a.gcno", "copy/ci/linux/mm/a.gcno"},
			paths: []string{"copy"},
			maps:  []string{"/ci/linux=linux"},
			want: []string{"linux/fs/a.gcno copy/ci/linux/fs/a.gcda", "linux/mm/a.gcno copy/ci/linux/mm/a.gcda",
				"outside: linux/fs/a.gcno", "outside: linux/mm/a.gcno"},
		},
		{
			name:  "links to notes that lead nowhere",
			files: []string{"copy/ci/a.gcda"},
			links: []string{"copy/ci/a.gcno", "copy/ci/b.gcno"},
			paths: []string{"copy", "copy/ci"},
			want: []string{"copy/ci/b.gcno",
				"problem: copy/ci/a.gcda: no notes file (.gcno) of that name: name the directory of the object files with --object-directory, or delete what is left of an older build"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			here := strings.NewReplacer("DIR", dir[1:], "MANGLED", strings.ReplaceAll(dir, "/", "#"))
			for i, f := range test.files {
				test.files[i] = here.Replace(f)
			}
			tree(t, dir, test.files...)
			for _, l := range test.links {
				if err := os.Symlink("/no/such.gcno", l); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range test.same {
				at, target, isSoft := strings.Cut(l, " -> ")
				link := os.Symlink
				if !isSoft {
					at, target, _ = strings.Cut(l, " = ")
					link = os.Link
				}
				_ = os.MkdirAll(filepath.Dir(at), 0o777)
				if err := link(filepath.Join(dir, target), at); err != nil {
					t.Fatal(err)
				}
			}
			sources, err := source.NewSources(source.Options{PathMaps: test.maps})
			if err != nil {
				t.Fatal(err)
			}
			found, err := In(test.paths, test.objects, sources)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			data := 0
			for _, u := range found.Units {
				got = append(got, strings.Join(append([]string{u.Notes}, u.Data...), " "))
				data += len(u.Data)
			}
			for _, p := range found.Problems {
				got = append(got, fmt.Sprintf("problem: %v", p))
			}
			for _, o := range found.Outside {
				got = append(got, "outside: "+o)
			}
			for i, g := range got {
				got[i] = strings.ReplaceAll(g, dir+"/", "")
			}
			for i, w := range test.want {
				test.want[i] = strings.ReplaceAll(here.Replace(w), dir+"/", "")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if data != found.Data {
				t.Errorf("%d data files, %d counted", data, found.Data)
			}
		})
	}
}

func TestFindRefuses(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, "b.o")
	for _, path := range []string{"b.o", "missing", "missing.gcda"} {
		if _, err := In([]string{filepath.Join(dir, path)}, nil, new(source.Sources)); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

func TestFindManyDirectories(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		tree(t, dir, fmt.Sprintf("d%d/e%d/a.gcno", i%20, i), fmt.Sprintf("d%d/e%d/a.gcda", i%20, i))
	}
	found, err := In([]string{dir}, nil, new(source.Sources))
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Units) != 300 || found.Data != 300 || len(found.Problems) != 0 {
		t.Errorf("%d units, %d data files, problems: %v", len(found.Units), found.Data, found.Problems)
	}
}
