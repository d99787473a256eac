package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// OpenDiff reads the diff that base names: "-" is standard input, the name of a
// file that file, anything else a revision that git knows, see GitDiff.
func OpenDiff(base, dir string) (*SourceDiff, error) {
	if base == "-" {
		return ReadDiff("standard input", os.Stdin)
	}
	info, err := os.Stat(base)
	if err != nil && (strings.HasSuffix(base, ".patch") || strings.HasSuffix(base, ".diff")) {
		return nil, err
	}
	if err != nil || info.IsDir() {
		d, err := GitDiff(base, dir)
		if err != nil {
			return nil, fmt.Errorf("%s is not a file, and as a revision: %w", base, err)
		}
		return d, nil
	}
	f, err := os.Open(base)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadDiff(base, f)
}

// GitDiff asks git how the checkout that dir is in differs from a revision.
// Of a revision that went on by itself, such as main seen from a branch, what
// counts is where the two parted. REV..REV compares these two.
func GitDiff(rev, dir string) (*SourceDiff, error) {
	top, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(rev, "-") {
		return nil, errors.New("a revision does not begin with -")
	}
	base, warning := rev, ""
	if !strings.Contains(rev, "..") {
		if _, err := git(dir, "rev-parse", "--verify", "--quiet", rev+"^{commit}"); err != nil {
			hint := ""
			if shallow, err := git(dir, "rev-parse", "--is-shallow-repository"); err == nil && strings.HasPrefix(string(shallow), "true") {
				hint = ", a shallow clone: git fetch brings it"
			}
			return nil, fmt.Errorf("git knows no such commit in %s%s", strings.TrimSuffix(string(top), "\n"), hint)
		}
		// In a shallow clone there may be no common commit; the revision
		// itself is then the best there is.
		if parted, err := git(dir, "merge-base", rev, "HEAD"); err == nil {
			base = strings.TrimSpace(string(parted))
		} else {
			warning = fmt.Sprintf("git knows no commit where HEAD and %s parted (a shallow clone?): changes are those from %s itself", rev, rev)
		}
	}
	text, err := git(dir, "diff", "--unified=0", "--find-renames", "--no-color", "--no-ext-diff", "--no-textconv",
		"--no-relative", "--src-prefix=a/", "--dst-prefix=b/", base, "--")
	if err != nil {
		return nil, err
	}
	d, err := ReadDiff("git diff "+rev, bytes.NewReader(text))
	if err == nil {
		d.Top, d.Warning = strings.TrimSuffix(string(top), "\n"), warning
	}
	return d, err
}

func git(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
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
