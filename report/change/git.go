package change

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"footfall/input"
	"footfall/report/source"
)

// OpenDiff reads the diff that base names: "-" is standard input, the name of a
// file that file, anything else a revision that git knows, see GitDiff. So is a
// file that has no diff in it, such as a program called main.
func OpenDiff(base, dir string) (*Diff, error) {
	if base == "-" {
		return ReadDiff("standard input", input.Limit(os.Stdin))
	}
	info, err := os.Stat(base)
	called := strings.HasSuffix(base, ".patch") || strings.HasSuffix(base, ".diff")
	if err != nil && called {
		return nil, err
	}
	if err != nil || info.IsDir() {
		d, err := GitDiff(base, dir)
		if err != nil {
			return nil, fmt.Errorf("%s is not a file, and as a revision: %w", base, err)
		}
		return d, nil
	}
	f, err := input.OpenGiven(base)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := ReadDiff(base, input.Limit(f))
	if !called && (errors.Is(err, errNoDiff) || err == nil && len(d.Files) == 0) {
		if d, err := GitDiff(base, dir); err == nil {
			return d, nil
		}
	}
	return d, err
}

// GitDiff asks git how the checkout that dir is in differs from a revision.
// Of a revision that went on by itself, such as main seen from a branch, what
// counts is where the two parted. REV..REV compares these two.
func GitDiff(rev, dir string) (*Diff, error) {
	top, err := topOf(dir)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(rev, "-"):
		return nil, errors.New("a revision does not begin with -")
	case strings.HasPrefix(rev, ".."): // HEAD..., but rather a variable that is not set
		return nil, errors.New("REV..REV needs the first revision")
	}
	base, warning := rev, ""
	if !strings.Contains(rev, "..") {
		if _, err := git(dir, "rev-parse", "--verify", "--quiet", rev+"^{commit}"); err != nil {
			hint := ""
			if shallow, err := git(dir, "rev-parse", "--is-shallow-repository"); err == nil && strings.HasPrefix(string(shallow), "true") {
				hint = ", a shallow clone: git fetch brings it"
			}
			return nil, fmt.Errorf("git knows no such commit in %s%s", top, hint)
		}
		// In a shallow clone there may be no common commit; the revision
		// itself is then the best there is.
		if parted, err := git(dir, "merge-base", rev, "HEAD"); err == nil {
			base = strings.TrimSpace(string(parted))
		} else {
			warning = fmt.Sprintf("git knows no commit where HEAD and %s parted (a shallow clone?): changes are those from %s itself", rev, rev)
		}
	}
	d, err := gitChanges("git diff "+rev, top, base)
	if err == nil {
		d.Warning, d.Here = warning, !strings.Contains(rev, "..")
	}
	return d, err
}

// gitChanges returns how two revisions differ, or one from the sources in the
// checkout at top, whatever the user's settings and the attributes of files.
func gitChanges(name, top string, revs ...string) (*Diff, error) {
	here := len(revs) == 1 && !strings.Contains(revs[0], "..")
	var index, modules []string
	if here {
		listed, err := lookAtIndex(top)
		if err != nil {
			return nil, err
		}
		setting, remove, err := listed.plain(top)
		if err != nil {
			return nil, err
		}
		defer remove()
		index, modules = setting, listed.modules
	}
	changes := func(options []string, files ...string) (*Diff, error) {
		args := append([]string{"diff", "--unified=0", "--find-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative",
			"--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=untracked", "-O/dev/null"}, options...)
		text, err := gitWith(top, index, nil, slices.Concat(args, revs, []string{"--"}, files)...)
		if err != nil {
			return nil, err
		}
		return ReadDiff(name, bytes.NewReader(text))
	}
	d, err := changes(nil)
	if err != nil {
		return nil, err
	}
	d.Top = top
	if here {
		if d.New, err = newSources(top); err != nil {
			return nil, err
		}
	}

	// Sources may be taken for binary, for a byte or by an attribute. Only they
	// are asked for as text: true binaries can be large.
	var binary []string
	for _, f := range d.Files {
		if f.untold == asBinary && isSource(cmp.Or(f.New, f.Old)) {
			binary = append(binary, f.Old, f.New)
		}
	}
	if binary = slices.DeleteFunc(binary, func(name string) bool { return name == "" }); len(binary) > 0 {
		asText, err := changes([]string{"--text"}, binary...)
		if err != nil {
			return nil, err
		}
		for _, f := range asText.Files {
			if i := slices.IndexFunc(d.Files, func(o FileDiff) bool { return o.New == f.New && o.New != "" }); i >= 0 {
				d.Files[i] = f
			}
		}
	}
	d.addSubmodules(name, modules, here)
	return d, nil
}

// newSources returns the sources in a checkout that are not added to it yet.
func newSources(top string) ([]string, error) {
	list, err := git(top, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range bytes.SplitSeq(list, []byte{0}) {
		if isSource(string(name)) {
			names = append(names, string(name))
		}
	}
	return names, nil
}

// An indexList is what has to be known of the index of a checkout: NUL ends each
// of the names unseen.
type indexList struct {
	unseen  []byte   // files at which git was told not to look (assume-unchanged, skip-worktree)
	modules []string // submodules
}

func lookAtIndex(top string) (*indexList, error) {
	list, err := git(top, "ls-files", "-v", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	l := new(indexList)
	for entry := range bytes.SplitSeq(list, []byte{0}) {
		how, name, ok := bytes.Cut(entry, []byte("\t"))
		if !ok || len(how) < 2 {
			continue
		}
		if how[0] == 'S' || how[0] >= 'a' && how[0] <= 'z' {
			l.unseen = append(append(l.unseen, name...), 0)
		}
		if bytes.HasPrefix(how[2:], []byte("160000 ")) {
			l.modules = append(l.modules, string(name))
		}
	}
	return l, nil
}

// plain returns the setting by which git also looks at files of which it was told
// not to, in a copy of its index, and what removes that. Mostly there are no such
// files and nothing to set.
func (l *indexList) plain(top string) (setting []string, remove func(), err error) {
	if len(l.unseen) == 0 {
		return nil, func() {}, nil
	}
	where, err := git(top, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return nil, nil, err
	}
	index, err := input.ReadFile(strings.TrimSuffix(string(where), "\n"), input.MostData)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "footfall-index-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	file := filepath.Join(dir, "index")
	setting = []string{"GIT_INDEX_FILE=" + file}
	err = os.WriteFile(file, index, 0o600)
	for _, flag := range []string{"--no-assume-unchanged", "--no-skip-worktree"} {
		if err == nil {
			_, err = gitWith(top, setting, l.unseen, "update-index", flag, "-z", "--stdin")
		}
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return setting, remove, nil
}

// addSubmodules puts the files of submodules in their places. To git a submodule is
// as it was if its commit is the same and it says itself that nothing changed: not so
// where it has new sources, or was told not to look at some.
func (d *Diff) addSubmodules(name string, modules []string, here bool) {
	changed := make(map[string]bool)
	for _, m := range slices.Clone(d.Files) {
		if m.untold == asSubmodule && m.New != "" {
			changed[m.New] = true
			d.addSubmodule(name, m, here)
		}
	}
	for _, m := range modules { // one that is in conflict is there more than once
		if !changed[m] {
			changed[m] = true
			d.addSubmodule(name, FileDiff{New: m, untold: asSubmodule, module: [2]string{"HEAD"}}, here)
		}
	}
}

// addSubmodule puts the files of a submodule that changed in its place, if git
// knows them here.
func (d *Diff) addSubmodule(name string, m FileDiff, here bool) {
	dir := filepath.Join(d.Top, m.New)
	if top, err := topOf(dir); err != nil || !sameFile(top, dir) {
		return
	}
	revs := []string{m.module[0], m.module[1]}
	if revs[0] == "" { // it is new: so are its files
		empty, err := git(dir, "hash-object", "-t", "tree", os.DevNull)
		if err != nil {
			return
		}
		revs[0] = strings.TrimSpace(string(empty))
	}
	if here {
		revs = revs[:1]
	}
	d.Files = slices.DeleteFunc(d.Files, func(f FileDiff) bool { return f.untold == asSubmodule && f.New == m.New })
	inside, err := gitChanges(name, dir, revs...)
	if err != nil {
		d.Files = append(d.Files, m)
		return
	}
	for _, name := range inside.New {
		d.New = append(d.New, m.New+"/"+name)
	}
	for _, f := range inside.Files {
		for _, name := range []*string{&f.Old, &f.New} {
			if *name != "" {
				*name = m.New + "/" + *name
			}
		}
		d.Files = append(d.Files, f)
	}
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// topOf returns the top directory of the checkout that dir is in.
func topOf(dir string) (string, error) {
	top, err := git(dir, "rev-parse", "--show-toplevel")
	return strings.TrimSuffix(string(top), "\n"), err
}

// ofThePlace are the variables by which git tells its hooks which repository
// they are of. They are not of the place where footfall looks: relative ones are
// seen from elsewhere, and a GIT_DIR without a GIT_WORK_TREE makes any directory
// the top of the checkout.
var ofThePlace = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_IMPLICIT_WORK_TREE"}

// gitEnviron returns the environment for a git that is to look at dir. A user
// may have set both GIT_DIR and GIT_WORK_TREE, of a checkout without a .git: they
// are kept if dir is in it.
func gitEnviron(dir string) []string {
	drop := []string{"GIT_DIFF_OPTS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"} // what would change the output
	repository, err1 := filepath.Abs(os.Getenv("GIT_DIR"))
	tree, err2 := filepath.Abs(os.Getenv("GIT_WORK_TREE"))
	var keep []string
	if path, err := filepath.Abs(dir); os.Getenv("GIT_DIR") != "" && os.Getenv("GIT_WORK_TREE") != "" && cmp.Or(err, err1, err2) == nil {
		if _, in := source.Below(path, tree); in {
			keep = []string{"GIT_DIR=" + repository, "GIT_WORK_TREE=" + tree}
		}
	}
	drop = append(drop, ofThePlace...)
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return slices.Contains(drop, name) || strings.HasPrefix(name, "GIT_TRACE")
	})
	return append(append(env, keep...), "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}

func git(dir string, args ...string) ([]byte, error) { return gitWith(dir, nil, nil, args...) }

// gitWith gives git more environment and its standard input.
func gitWith(dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
	// A checkout may name a program that git is to run to know what changed; for the
	// rest git itself refuses repositories of other users (safe.directory).
	cmd := exec.Command("git", append([]string{"-c", "core.fsmonitor=", "-c", "safe.bareRepository=explicit"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(gitEnviron(dir), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		return nil, fmt.Errorf("git %s: %s", args[0], said)
	}
	if err != nil {
		return nil, fmt.Errorf("git, to know what changed: %w", err)
	}
	return out, nil
}

// Revision is that of the checkout that a directory is in, in 12 digits; "" if there is none
// that git knows of.
func Revision(dir string) string {
	out, err := git(dir, "rev-parse", "--verify", "--quiet", "--short=12", "HEAD")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
