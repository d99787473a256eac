//go:build linux

package profile

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"footfall/compile/instrument"
	"footfall/input"
	"footfall/process"
	"footfall/process/needs"
	"footfall/process/processtest"
)

// TestCounting has a process count before, while and after it is sampled: what it
// does while samples are evaluated does not matter.
func TestCounting(t *testing.T) {
	b, err := os.ReadFile("../compile/instrument/testdata/prog.counts")
	if err != nil {
		t.Fatal(err)
	}
	c := counting{name: filepath.Join(t.TempDir(), "x.counts")}
	entries := b[binary.LittleEndian.Uint64(b[128:]):] // the first counter is that of f
	count := func(n uint64) {
		binary.LittleEndian.PutUint64(entries, n)
		if err := os.WriteFile(c.name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	count(10)
	c.begin()
	count(17)
	c.end()
	count(1000)
	builder := newBuilder()
	builder.add([]*pprof.Location{builder.named("sampled", "")}, "", 0, 5)
	sampled, err := builder.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.addTo(sampled)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, n := range NewGraph(p).Nodes {
		if n.Calls != 0 {
			got[n.Func.Name] = n.Calls
		}
	}
	if len(got) != 1 || got["f"] != 7 {
		t.Errorf("calls %v, want 7 of f", got)
	}
}

// TestCountsOfAnotherUser has root read counts of another user, whose programs and
// libraries are what he may not read: they do not tell what is in them.
func TestCountsOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "who may read what others may not")
	}
	secret := secretProgram(t)
	id := buildID(secret)
	if id == "" {
		t.Fatal("the program has no build ID")
	}
	for _, c := range []struct {
		user  int
		names bool
	}{{0, true}, {4711, false}} {
		owners := new(input.Owners)
		owners.Note(input.User{UID: c.user, GID: c.user})
		r := &countsReader{opens: owners.OpenNamed, others: make(map[string]*image)}
		counted := r.image(&instrument.CountedImage{Path: secret, BuildID: id, PID: 1 << 30})
		library := r.other(secret)
		if (len(counted.functions) > 0) != c.names || (len(library.functions) > 0) != c.names {
			t.Errorf("user %d: %d and %d functions, %q", c.user, len(counted.functions), len(library.functions), r.notes)
		}
		counted.close()
		r.close()
	}
}

// TestCountsOfPipes has counts name what is no program: nothing waits for it.
func TestCountsOfPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "is a pipe", "/dev/full": "is a device"} {
		p, err := FromCounts(&instrument.CountsFile{Images: []*instrument.CountedImage{{
			Path: path, PID: 1 << 30, Functions: []*instrument.CountedFunction{{Name: "f", Calls: 1, Image: &instrument.CountedImage{Path: path}}},
		}}}, new(input.Owners))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("%s: notes are %q, want one about %q", path, p.Notes, want)
		}
	}
}

// TestMappedCounts finds the counts file that a process has mapped, and not what else it has mapped and writes to.
func TestMappedCounts(t *testing.T) {
	program := processtest.Compile(t, `
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int n, char **v) {
	int fd = open(v[1], O_RDWR | O_CREAT, 0600);
	char *memory = ftruncate(fd, 65536) ? 0 : mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char line[100];
	while (puts("ready"), fflush(stdout), fgets(line, sizeof line, stdin)) {
		memset(memory, 0, 100);
		memcpy(memory, line, strlen(line) - 1);
	}
}`)
	path := filepath.Join(t.TempDir(), "mapped")
	running := processtest.Start(t, exec.Command(program, path))
	p, err := process.Open(running.Pid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	running.Expect("ready")
	for _, c := range []struct{ content, want string }{{"", ""}, {"SQLite format 3", ""}, {"FOOTFALL", path}} {
		running.Say("%s", c.content)
		if got := MappedCounts(p); got != c.want {
			t.Errorf("a file that begins with %q: %q, want %q", c.content, got, c.want)
		}
	}
}
