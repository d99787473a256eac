//go:build linux

package ftrace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"footfall/process"
)

// prefix begins the names of our instances: footfall-PID-START.
const prefix = "footfall-"

// stateFile is where is written what to put back, before it is changed. It goes
// with the next boot, as the settings do.
const stateFile = "/run/footfall-trace-kernel.json"

// Settings are those of the whole kernel that were changed, in that order.
type settings struct {
	tree *tree
	path string

	// What the file holds:
	Owner string    `json:"owner"` // as in the name of an instance
	Boot  string    `json:"boot"`  // the id of the boot
	Saved []setting `json:"saved"`
}

type setting struct {
	File  string `json:"file"` // below tracefs
	Value string `json:"value"`
}

// owner is how this process is known: a pid is used again, but not with the same
// start.
func owner(pid int) (string, error) {
	id, err := process.Identify(pid)
	return fmt.Sprintf("%d-%d", pid, id.Ticks), err
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// lives tells whether the process that is known as name is still there.
func lives(name string) bool {
	text, _, _ := strings.Cut(name, "-")
	pid, err := strconv.Atoi(text)
	if err != nil {
		return false
	}
	now, err := owner(pid)
	return err == nil && now == name
}

// newSettings begins to remember.
func newSettings(t *tree) (*settings, error) {
	name, err := owner(os.Getpid())
	if err != nil {
		return nil, err
	}
	return &settings{tree: t, path: stateFile, Owner: name, Boot: bootID()}, nil
}

// set changes a file below tracefs. What it said before is saved first.
func (s *settings) set(file, value string) error {
	if err := s.remember(file); err != nil {
		return err
	}
	return s.tree.write(file, value)
}

// remember saves what a file says.
func (s *settings) remember(file string) error {
	if !slices.ContainsFunc(s.Saved, func(old setting) bool { return old.File == file }) {
		now, err := s.tree.read(file)
		if err != nil {
			return err
		}
		if err := s.alone(); err != nil {
			return err
		}
		s.Saved = append(s.Saved, setting{file, clean(file, now)})
		return s.save()
	}
	return nil
}

// alone fails if another footfall has changed settings.
func (s *settings) alone() error {
	if len(s.Saved) > 0 {
		return nil
	}
	other, err := loadSettings(s.tree, s.path)
	if err == nil && other != nil {
		pid, _, _ := strings.Cut(other.Owner, "-")
		err = fmt.Errorf("kernel: footfall (process %s) traces it already, with settings that there are but once", pid)
	}
	return err
}

// clean makes what is to be written of what was read:
//
//	trace_clock        [local] global
//	buffer_size_kb     7 (expanded: 1408)
//	tracing_thresh     0
//	set_ftrace_filter  #### all functions enabled ####, or names; and commands
//	                   such as "schedule:traceoff:unlimited", which stay anyway
func clean(file, text string) string {
	switch name := filepath.Base(file); {
	case name == "trace_clock":
		if _, rest, ok := strings.Cut(text, "["); ok {
			text, _, _ = strings.Cut(rest, "]")
		}
	case name == "buffer_size_kb":
		if _, rest, ok := strings.Cut(text, "(expanded: "); ok {
			text, _, _ = strings.Cut(rest, ")")
		}
	case isList(file):
		var names []string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			// A function of a module is "name [module]".
			line, module, _ := strings.Cut(line, " [")
			if module != "" {
				line += ":mod:" + strings.TrimSuffix(module, "]")
			}
			if line == "" || line[0] == '#' || line == "no pid" || strings.Contains(line, ":") && module == "" {
				continue
			}
			names = append(names, line)
		}
		text = strings.Join(names, "\n")
	}
	return text
}

// save writes the file, so that at any time it is whole.
func (s *settings) save() error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path))
	if err != nil {
		return fmt.Errorf("kernel: what to put back must be written down first: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// restore puts everything back, the last first.
func (s *settings) restore() error {
	if len(s.Saved) == 0 {
		return nil
	}
	var failed []error
	for _, old := range slices.Backward(s.Saved) {
		failed = append(failed, s.tree.write(old.File, old.Value))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	s.Saved = nil
	return os.Remove(s.path)
}

// loadSettings reads what a footfall has left; nil: nothing.
func loadSettings(t *tree, path string) (*settings, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	s := &settings{tree: t, path: path}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("kernel: %s: %w: remove it", path, err)
	}
	for _, old := range s.Saved {
		if !filepath.IsLocal(old.File) {
			return nil, fmt.Errorf("kernel: %s: %q is no setting: remove it", path, old.File)
		}
	}
	if s.Boot != bootID() {
		return nil, os.Remove(path)
	}
	return s, nil
}

// Repair puts back what a footfall has left that was killed. It returns how many
// instances were removed and settings put back.
func Repair() (n int, err error) {
	t, err := openTree()
	if err != nil {
		return 0, err
	}
	defer t.close()
	return t.repair(stateFile)
}

func (t *tree) repair(path string) (n int, err error) {
	left, err := loadSettings(t, path)
	if err != nil {
		return 0, err
	}
	if left != nil && !lives(left.Owner) {
		n += len(left.Saved)
		if err := left.restore(); err != nil {
			return 0, err
		}
	}
	entries, err := os.ReadDir(filepath.Join(t.dir, "instances"))
	if err != nil {
		return n, t.failed("read", "instances", err)
	}
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), prefix); ok && !lives(name) {
			if err := t.removeInstance(filepath.Join("instances", e.Name())); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

func (t *tree) removeInstance(name string) error {
	err := t.write(name+"/current_tracer", "nop")
	return errors.Join(err, os.Remove(filepath.Join(t.dir, name)))
}
