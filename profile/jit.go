package profile

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"footfall/binary"
	"footfall/input"
	"footfall/process"
)

// isMade tells whether what is mapped is no file but code made at run time.
func isMade(path string) bool {
	for _, begin := range []string{"//anon", "[anon", "/anon_hugepage", "/memfd:", "/dev/zero"} {
		if strings.HasPrefix(path, begin) {
			return true
		}
	}
	return path == ""
}

// stubsName is the image of the code that footfall trace and footfall callers put into
// processes.
const stubsName = "footfall stubs"

// isStubs tells whether what is mapped is that, by the name that patch gives it.
func isStubs(path string) bool {
	name, ours := strings.CutPrefix(strings.TrimSuffix(path, " (deleted)"), "/memfd:"+process.MemoryPrefix)
	return ours && (name == "code" || name == "returns")
}

// generatedKey begins the keys of images for code made at run time.
const generatedKey = "//anon"

// generated is code that a process made at run time.
func generated(pid int) *image {
	return &image{key: fmt.Sprintf("%s %d", generatedKey, pid), path: "anonymous memory", problem: "made at run time", maker: pid}
}

// nameGenerated gives the code names if its process has written them down, as
// compilers at run time do for perf.
func (i *image) nameGenerated() { i.nameFrom(openGenerated) }

func (i *image) nameFrom(open func(pid int) *os.File) {
	if f := open(i.maker); f != nil {
		defer f.Close()
		if b, err := io.ReadAll(io.LimitReader(f, mostGenerated)); err == nil {
			i.functions = generatedFunctions(b)
		}
	}
	if len(i.functions) == 0 {
		i.key = generatedKey // then nothing tells it from that of other processes
	}
}

// mostGenerated is how many bytes of names are read.
const mostGenerated = 256 << 20

// openGenerated opens the file with the names: as the process sees it, which may be
// in a container, while it lives, else as we do. Everybody may write to its directory:
// what is no regular file is left alone, of a process that lives also what belongs to
// another user, and a link leads to what its own user may read.
func openGenerated(pid int) *os.File {
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	p, err := process.Open(pid)
	if err != nil {
		f, _ := input.OpenOwned(name)
		return f
	}
	defer p.Close()
	user, err := p.User()
	if err != nil {
		return nil
	}
	if own, err := p.OwnPID(); err == nil {
		if f, err := p.OpenInRoot(fmt.Sprintf("/tmp/perf-%d.map", own)); err == nil {
			if input.BelongsTo(f, user.UID, 0) {
				return f
			}
			f.Close()
		}
	}
	f, _ := input.OpenOwned(name, user.UID, 0)
	return f
}

// generatedFunctions reads lines of START SIZE NAME, in hexadecimal, as
// tools/perf/Documentation/jit-interface.txt of Linux describes them. Of functions
// at one place the last one counts: compilers use memory again.
func generatedFunctions(b []byte) binary.Functions {
	var functions binary.Functions
	for line := range bytes.Lines(b) {
		part := strings.SplitN(strings.TrimSpace(string(line)), " ", 3)
		if len(part) < 3 {
			continue
		}
		start, err := strconv.ParseUint(strings.TrimPrefix(part[0], "0x"), 16, 64)
		size, err2 := strconv.ParseUint(strings.TrimPrefix(part[1], "0x"), 16, 64)
		if err == nil && err2 == nil && size > 0 {
			functions = append(functions, binary.FunctionSymbol{Name: part[2], Addr: start, Size: size})
		}
	}
	slices.Reverse(functions)
	slices.SortStableFunc(functions, func(a, b binary.FunctionSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return slices.CompactFunc(functions, func(a, b binary.FunctionSymbol) bool { return a.Addr == b.Addr })
}
