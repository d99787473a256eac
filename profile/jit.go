//go:build linux

package profile

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"footfall/exe"
)

// generatedKey begins the keys of images for code made at run time.
const generatedKey = "//anon"

// generated is code that a process made at run time.
func generated(pid int) *image {
	return &image{key: fmt.Sprintf("%s %d", generatedKey, pid), path: "anonymous memory", problem: "made at run time", maker: pid}
}

// nameGenerated gives the code names if its process has written them down, as
// compilers at run time do for perf.
func (i *image) nameGenerated() {
	for _, name := range mapsOfGenerated(i.maker) {
		if b, err := os.ReadFile(name); err == nil {
			i.functions = append(i.functions, generatedFunctions(b)...)
			break
		}
	}
	if len(i.functions) == 0 {
		i.key = generatedKey // then nothing tells it from that of other processes
	}
}

// mapsOfGenerated are the names that the file may have: as the process sees it,
// which may be in a container, while it lives, and as we do.
func mapsOfGenerated(pid int) []string {
	names := []string{fmt.Sprintf("/tmp/perf-%d.map", pid)}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			own := strings.Fields(ids)
			names = append([]string{fmt.Sprintf("/proc/%d/root/tmp/perf-%s.map", pid, own[len(own)-1])}, names...)
		}
	}
	return names
}

// generatedFunctions reads lines of START SIZE NAME, in hexadecimal, as
// tools/perf/Documentation/jit-interface.txt of Linux describes them. Of functions
// at one place the last one counts: compilers use memory again.
func generatedFunctions(b []byte) exe.Functions {
	var functions exe.Functions
	for line := range bytes.Lines(b) {
		part := strings.SplitN(strings.TrimSpace(string(line)), " ", 3)
		if len(part) < 3 {
			continue
		}
		start, err := strconv.ParseUint(strings.TrimPrefix(part[0], "0x"), 16, 64)
		size, err2 := strconv.ParseUint(strings.TrimPrefix(part[1], "0x"), 16, 64)
		if err == nil && err2 == nil && size > 0 {
			functions = append(functions, exe.Function{Name: part[2], Addr: start, Size: size})
		}
	}
	slices.Reverse(functions)
	slices.SortStableFunc(functions, func(a, b exe.Function) int { return cmp.Compare(a.Addr, b.Addr) })
	return slices.CompactFunc(functions, func(a, b exe.Function) bool { return a.Addr == b.Addr })
}
