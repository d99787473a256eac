//go:build unix

package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"footfall/process/needs"
)

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// permitted is what new files may have of permissions.
func permitted(t *testing.T) os.FileMode {
	t.Helper()
	name := filepath.Join(t.TempDir(), "new")
	if err := os.WriteFile(name, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestFileAppearsWhenComplete(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out")
	for _, old := range []string{"", "old"} {
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(f, "new")
		if b, _ := os.ReadFile(name); string(b) != old {
			t.Errorf("before Close: %q, want %q", b, old)
		}
		if err := f.Close(); err != nil || content(t, name) != "new" {
			t.Errorf("after Close: %q, %v", content(t, name), err)
		}
		f.Discard()
		if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	failure := errors.New("failure")
	if err := Write(name, func(w io.Writer) error { io.WriteString(w, "half"); return failure }); err != failure || content(t, name) != "old" {
		t.Errorf("%v, %q: an output that failed destroyed the older one", err, content(t, name))
	}
	if err := WriteBytes(name, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(name); info.Mode().Perm() != 0o640&permitted(t) {
		t.Errorf("permissions have become %v", info.Mode())
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

func TestShownFileGrows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Show(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, "first")
	if got := content(t, name); got != "first" {
		t.Errorf("shown: %q", got)
	}
	io.WriteString(f, " second")
	f.Discard()
	if got := content(t, name); got != "first second" {
		t.Errorf("at the end: %q", got)
	}
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	precious, link, far := filepath.Join(dir, "precious"), filepath.Join(dir, "link"), filepath.Join(dir, "far")
	if err := errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.Symlink("precious", link), os.Symlink(link, far)); err != nil {
		t.Fatal(err)
	}
	if err := WriteBytes(far, []byte("mine")); err != nil || content(t, precious) != "mine" {
		t.Errorf("through links of the user's own: %v, %q", err, content(t, precious))
	}
	if target, err := os.Readlink(far); err != nil || target != link {
		t.Errorf("the link has become %q, %v", target, err)
	}
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "links of another user")
	}
	if err := os.Lchown(link, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, far} {
		if err := WriteBytes(name, []byte("theirs")); err == nil || !strings.Contains(err.Error(), "link of another user (uid 65534)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := content(t, precious); got != "mine" {
		t.Errorf("overwritten through a link of another user: %q", got)
	}
	pages := filepath.Join(dir, "pages")
	if err := errors.Join(os.Symlink(dir, pages), os.Lchown(pages, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pages, pages + "/"} {
		if err := Directory(name); err == nil {
			t.Errorf("%s is a link of another user, and no error", name)
		}
	}
}

func TestLoopOfLinks(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.Symlink("b", a), os.Symlink("a", b)); err != nil {
		t.Fatal(err)
	}
	if err := WriteBytes(a, nil); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
}

func TestNamesAsLongAsTheyMayBe(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("x", 255))
	if err := WriteBytes(name, []byte("x")); err != nil || content(t, name) != "x" {
		t.Error(err)
	}
	err := WriteBytes(filepath.Join(dir, "nowhere", "x"), nil)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nowhere/x") {
		t.Errorf("the error does not name the file: %v", err)
	}
}

func TestWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte)
	go func() {
		b, _ := os.ReadFile(pipe)
		read <- b
	}()
	if err := WriteBytes(pipe, []byte("through")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; string(got) != "through" {
		t.Errorf("from the pipe: %q", got)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(pipe, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := WriteBytes(pipe, []byte("theirs")); err == nil || !strings.Contains(err.Error(), "pipe of another user (uid 65534)") {
			t.Errorf("into a pipe of another user: %v", err)
		}
	}
	if err := WriteBytes(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s has become %v, %v", os.DevNull, info, err)
	}
}

// What a shell has opened by >> FILE is appended to.
func TestDescriptorIsNotReplaced(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	io.WriteString(f, "before, ")
	link := filepath.Join(t.TempDir(), "stdout") // as /dev/stdout
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), link); err != nil {
		t.Fatal(err)
	}
	if err := WriteBytes(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := content(t, name); got != "before, new" {
		t.Errorf("%q", got)
	}
}
