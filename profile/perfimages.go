package profile

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"footfall/binary"
	"footfall/formats/perfdata"
	"footfall/process"
)

// A codeFile is a file with code, of a certain build if that is known.
type codeFile struct {
	path, id string
	pid      int // of the process that made the code at run time; 0: it is a file
	opens    opener

	once  sync.Once
	image *image
}

// file returns the one that a change mapped.
func (h *history) file(c perfdata.SidebandEvent) *codeFile {
	path, pid := c.Path, 0
	switch {
	case isStubs(path):
		path = stubsName
	case isMade(path):
		path, pid = fmt.Sprintf("%s %d", generatedKey, c.PID), c.PID
	}
	key := [2]string{path, cmp.Or(c.BuildID, h.buildIDs[path])}
	f := h.files[key]
	if f == nil {
		f = &codeFile{path: path, id: key[1], pid: pid, opens: h.opens}
		h.files[key] = f
	}
	return f
}

// perfImages are the images of a perf.data file.
type perfImages struct {
	history *history

	nowhere *image // of code at addresses where nothing was mapped
	kernel  *image
	shift   uint64 // of the running kernel's addresses against those of the file
	core    [2]uint64
}

// find returns the image with the code at an address, and the address as its file has
// it; nil if there is none. It may be called from several goroutines.
func (p *perfImages) find(code *region, addr uint64) (*image, uint64) {
	m := code.at(addr)
	if m == nil {
		return nil, 0
	}
	i := p.image(m.file)
	if i.file == nil {
		return i, addr
	}
	at, ok := i.file.CodeAddress(addr - m.start + m.offset)
	if !ok {
		return nil, 0
	}
	return i, at
}

// image opens a file, once.
func (p *perfImages) image(f *codeFile) *image {
	f.once.Do(func() {
		f.image = f.open()
		if f.pid == 0 {
			f.image.key, f.image.path = strings.TrimSpace(f.path+" "+f.id), f.path
		}
	})
	return f.image
}

var errOtherBuild = errors.New("has been built again since")

// open opens the build that was sampled: where it was, or what perf keeps of it.
func (f *codeFile) open() *image {
	switch {
	case f.pid != 0:
		i := generated(f.pid)
		i.nameFrom(func(pid int) *os.File {
			own, _ := f.opens(fmt.Sprintf("/tmp/perf-%d.map", pid))
			return own // a process that has the number now is another one
		})
		return i
	case f.path == "[vdso]":
		return f.openVDSO()
	case !strings.HasPrefix(f.path, "/"):
		return &image{problem: "made at run time"} // [heap], [stack], [uprobes], our stubs
	}
	err := error(nil)
	for _, path := range append([]string{f.path}, f.kept()...) {
		i, openErr := openImageBy(path, true, f.opens)
		if openErr == nil && f.id != "" && i.buildID != f.id {
			i.close()
			openErr = errOtherBuild
		}
		if openErr == nil {
			return i
		}
		if err == nil || errors.Is(openErr, errOtherBuild) {
			err = openErr
		}
	}
	return &image{problem: err.Error(), buildID: f.id, gone: true}
}

// openVDSO opens the code that the kernel gives every process, if it is this kernel.
func (f *codeFile) openVDSO() *image {
	i, err := openVDSO()
	if err == nil && i.file != nil {
		notes, _ := i.file.Contents(".note")
		if f.id == "" || f.id == noteID(notes) {
			return i
		}
	}
	return &image{problem: "of another kernel"}
}

// kept are the names that copies of the build may have: perf record keeps what it saw.
func (f *codeFile) kept() []string {
	if len(f.id) < 4 {
		return nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	link := filepath.Join(home, ".debug", ".build-id", f.id[:2], f.id[2:])
	return []string{filepath.Join(link, "elf"), link}
}

func (p *perfImages) unknown() *image {
	if p.nowhere == nil {
		p.nowhere = &image{key: "unknown", path: "unknown"}
	}
	return p.nowhere
}

// kernelImage is the kernel, with names if it is the one that runs here.
func (p *perfImages) kernelImage(f *perfdata.Recording) *image {
	if p.kernel != nil {
		return p.kernel
	}
	p.kernel = &image{key: "kernel", path: "kernel"}
	if sameKernel(f) {
		all := kernelFunctions()
		named := func(name string) int {
			return slices.IndexFunc(all, func(fn binary.FunctionSymbol) bool { return fn.Name == name })
		}
		was := p.history.kernel
		begin, end := named(strings.TrimPrefix(was.Path, kernelMap)), named("_etext")
		switch {
		case begin < 0 || was.Offset == 0: // hidden, here or there
		case all[begin].Addr == was.Offset:
			p.kernel.functions = all
		case end > begin:
			// It has another place at each start (KASLR); that of modules is not known.
			p.shift, p.core = all[begin].Addr-was.Offset, [2]uint64{all[begin].Addr, all[end].Addr}
			all[end-1].Size = max(1, all[end].Addr-all[end-1].Addr) // it does not go on to modules
			p.kernel.functions = all[begin:end:end]
		}
	}
	for _, c := range p.history.made {
		p.kernel.functions = append(p.kernel.functions, binary.FunctionSymbol{Name: c.Name, Addr: c.Addr, Size: c.Len})
	}
	slices.SortStableFunc(p.kernel.functions, func(a, b binary.FunctionSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return p.kernel
}

// kernelAddr is the address that code of the file's kernel has in the running one.
func (p *perfImages) kernelAddr(addr uint64) uint64 {
	if at := addr + p.shift; p.shift != 0 && p.core[0] <= at && at < p.core[1] {
		return at
	}
	return addr
}

// sameKernel tells whether the kernel that was sampled runs here: by its build ID, else
// by its release.
func sameKernel(f *perfdata.Recording) bool {
	i := slices.IndexFunc(f.BuildIDs, func(id perfdata.BuildID) bool { return id.Kernel && strings.HasPrefix(id.Path, kernelMap) })
	if b, err := os.ReadFile("/sys/kernel/notes"); err == nil && i >= 0 {
		return noteID(b) == f.BuildIDs[i].ID
	}
	return f.Release != "" && process.KernelRelease() == f.Release
}

// noteID is the build ID among ELF notes, "" if there is none.
//
//	u32 size of name, u32 size of value, u32 type; name, value, each filled up to 4
func noteID(b []byte) string {
	for len(b) >= 12 {
		u32 := func(at int) uint64 {
			return uint64(b[at]) | uint64(b[at+1])<<8 | uint64(b[at+2])<<16 | uint64(b[at+3])<<24
		}
		name, value, kind := u32(0), u32(4), u32(8)
		at := 12 + (name+3)&^3
		end := at + (value+3)&^3
		if end > uint64(len(b)) {
			return ""
		}
		if kind == 3 && name == 4 && string(b[12:15]) == "GNU" {
			return hex.EncodeToString(b[at : at+value])
		}
		b = b[end:]
	}
	return ""
}

// notes says which programs have no names, and why.
func (p *perfImages) notes() []string {
	var gone, rebuilt, others []string
	for _, f := range p.history.files {
		switch i := f.image; {
		case i == nil || i.problem == "":
		case i.gone && i.problem == errOtherBuild.Error():
			rebuilt = append(rebuilt, f.path)
		case i.gone:
			gone = append(gone, f.path)
		case i.file != nil:
			others = append(others, fmt.Sprintf("%s: %s: its functions have no names", f.path, i.problem))
		}
	}
	slices.Sort(gone)
	slices.Sort(rebuilt)
	slices.Sort(others)
	var notes []string
	if len(rebuilt) > 0 {
		notes = append(notes, fmt.Sprintf("built again since it was sampled, so without names: %s; sample it again, or keep builds with perf buildid-cache --add", list(rebuilt)))
	}
	if len(gone) > 0 {
		notes = append(notes, fmt.Sprintf("not here, so without names: %s", list(gone)))
	}
	return append(notes, others...)
}

// list names some.
func list(names []string) string {
	const most = 5
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}

func (p *perfImages) close() {
	if p.history == nil {
		return
	}
	for _, f := range p.history.files {
		if f.image != nil {
			f.image.close()
		}
	}
}
