//go:build linux

package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/formats/gcov"
	"footfall/output"
	"footfall/process"
)

// A Baseline is what counters were at one time. Counts since then are those of
// now less these: the program itself is not changed. A [History] that begins
// with it subtracts it.
type Baseline struct {
	Time    time.Time
	Objects []BaselineObject
	Loads   []Load `json:",omitempty"` // of the objects
	// Profiles are the source-based counters, see SourceProfile.
	Profiles []BaselineProfile `json:",omitempty"`
}

// A BaselineProfile is a SourceProfile of a Baseline.
type BaselineProfile struct {
	Image string // its Key
	Bytes []byte
}

// A BaselineObject is a Unit of a Baseline.
type BaselineObject struct {
	Name, Image string
	Counts      []byte // as the data file
	Load        int    `json:",omitempty"` // which of Loads, by ID; 0: not known
}

// NewBaseline takes the units as the new zero.
func NewBaseline(units []Unit) *Baseline {
	b := &Baseline{Time: time.Now()}
	for _, u := range units {
		b.add(u, u.Counts)
	}
	return b
}

func (b *Baseline) add(u Unit, zero *gcov.Counts) {
	o := BaselineObject{Name: u.Name, Image: u.Image, Counts: zero.Encode()}
	if u.Load != nil {
		o.Load = u.Load.ID
		if n := len(b.Loads); n == 0 || b.Loads[n-1].ID != o.Load {
			b.Loads = append(b.Loads, *u.Load)
		}
	}
	b.Objects = append(b.Objects, o)
}

// Baselines keeps baselines in files: footfall ends, the program runs on.
//
// The name of a file tells the process from any other that the system has run
// and will run, so that a baseline is never taken for that of another one:
//
//	4711-123456-7ffd01234567     pid, start time, beginning of the stack
//	kernel-6f9c...               the kernel's boot id
type Baselines struct{ dir string }

// OpenBaselines opens the user's directory of baselines, below
// $XDG_RUNTIME_DIR or else the directory for temporary files, and removes those
// of processes that have ended.
func OpenBaselines() (*Baselines, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "footfall-"+strconv.Itoa(os.Geteuid()))
	} else {
		dir = filepath.Join(dir, "footfall")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("place for resets: %w", err)
	}
	// In a directory for everybody somebody else may have made it.
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return nil, fmt.Errorf("place for resets: %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("place for resets: %s must be a directory that only user %d may use; remove it", dir, os.Geteuid())
	}
	b := &Baselines{dir}
	b.tidy()
	return b, nil
}

// Key is the name by which the baseline of a process is kept.
func (p *CountedProcess) Key() string { return baselineKey(p.PID, p.proc.Start) }

// Key is the name by which the baseline of the kernel is kept, or of a copy of
// its counters.
func (k *Kernel) Key() string {
	if k.copy {
		return "kernel-" + strings.Map(func(r rune) rune {
			if r == '/' || r == 0 {
				return '#'
			}
			return r
		}, k.dir)
	}
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return "kernel-" + strings.TrimSpace(string(id))
}

func baselineKey(pid int, id process.Identity) string {
	return fmt.Sprintf("%d-%d-%x", pid, id.Ticks, id.Stack)
}

// tidy removes the baselines of processes that have ended.
func (b *Baselines) tidy() {
	entries, _ := os.ReadDir(b.dir)
	for _, e := range entries {
		first, _, _ := strings.Cut(e.Name(), "-")
		pid, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		if id, err := process.Identify(pid); err != nil || !strings.HasPrefix(e.Name(), baselineKey(pid, id)) {
			_ = os.Remove(filepath.Join(b.dir, e.Name()))
		}
	}
}

// Load returns the baseline of that key, nil if there is none.
func (b *Baselines) Load(key string) (*Baseline, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	base := new(Baseline)
	if err == nil {
		err = json.Unmarshal(text, base)
	}
	if err != nil {
		return nil, fmt.Errorf("the last reset: %w", err)
	}
	return base, nil
}

// Store keeps a baseline in place of an older one.
func (b *Baselines) Store(key string, base *Baseline) error {
	text, err := json.Marshal(base)
	if err != nil {
		return err
	}
	return output.Replace(filepath.Join(b.dir, key), text)
}

// Remove forgets the baseline of that key; false: there was none.
func (b *Baselines) Remove(key string) (bool, error) {
	err := os.Remove(filepath.Join(b.dir, key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
