//go:build linux

package live

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"footfall/process"
)

// A Load is a program or library with counters in the memory of a process, from
// when it was loaded until it is closed.
//
// libgcov keeps the state of each in __gcov_root:
//
//	list                 pointer to the first gcov_info
//	dumped, run_counted  the lowest two bits of an u32
//	next, prev           pointers to the roots that the dynamic linker has joined
//	                     by __gcov_master
//
// __gcov_dump, and what calls it (exit, exec, closing a library), adds what is
// in a data file to the counters in memory before it writes them, and sets
// dumped; from then on nothing is written any more. __gcov_reset clears the
// counters and dumped, of all roots that are joined; a child of fork does that
// first. run_counted stays.
type Load struct {
	// ID is another one for each load that was seen: of a library that was closed
	// and opened again, too, if that could be told from its memory map.
	ID      int
	Path    string
	At      uint64 // address
	Program bool   // the process runs it: it cannot be closed
	Group   int    // loads of one group are set to zero together
	Dumped  bool   // the program has written its data files, and not reset its counters since
	Counted bool   // it has written them at least once
	// Earlier tells that the counters may hold more than what this process has
	// counted, because of Dumped: what was in the data files before. They do not
	// if these tell of a single run.
	Earlier bool
	// Writing tells that data files are being written, so that some counters may
	// hold more, too.
	Writing bool
}

// The flags of a root.
const (
	rootDumped  = 1
	rootCounted = 2
)

// rootSize is the size of a root, as far as it is of interest: of GCC before 5
// only its list is known.
func (im *image) rootSize() int {
	if len(im.units) > 0 && im.units[0].version.Major() < 5 {
		return im.pointer
	}
	return 4 * im.pointer
}

// flags returns those of a root, 0 if they are not known.
func (im *image) flags(root []byte) int {
	if len(root) < 4*im.pointer {
		return 0
	}
	x := im.order.Uint32(root[im.pointer:])
	if im.order.String() == "BigEndian" { // bit fields begin at the other end
		return int(x>>31&1 | x>>29&2)
	}
	return int(x & (rootDumped | rootCounted))
}

// neighbours returns the roots that a root is joined with.
func (im *image) neighbours(root []byte) []uint64 {
	if len(root) < 4*im.pointer {
		return nil
	}
	return []uint64{im.address(root[2*im.pointer:]), im.address(root[3*im.pointer:])}
}

// loads describes the loads of images whose roots have just been read, by image.
func (p *CountedProcess) loads(images []*image, buf []byte) map[*image]*Load {
	byRoot := make(map[uint64]*image)
	for _, im := range images {
		if im.root != 0 {
			byRoot[im.root] = im
		}
	}
	all := make(map[*image]*Load)
	for _, im := range images {
		l := &Load{ID: im.id, Path: im.path, At: im.start, Program: im.program, Group: im.id}
		all[im] = l
		if im.root == 0 {
			continue
		}
		flags := im.flags(im.rootIn(buf))
		l.Dumped, l.Counted = flags&rootDumped != 0, flags&rootCounted != 0
		seen := map[*image]bool{im: true}
		for open := []*image{im}; len(open) > 0; open = open[1:] {
			l.Group = min(l.Group, open[0].id)
			for _, addr := range open[0].neighbours(open[0].rootIn(buf)) {
				if next := byRoot[addr]; next != nil && !seen[next] {
					seen[next] = true
					open = append(open, next)
				}
			}
		}
	}
	return all
}

func (im *image) rootIn(buf []byte) []byte { return buf[im.rootAt : im.rootAt+im.rootSize()] }

// maxRootScan is how much memory is searched for a root.
const maxRootScan = 64 << 20

// findRoot finds the root of an image without symbols, which lies in .bss: it
// begins with the address of the unit that no other one leads to, then come
// flags and two pointers.
func (w *walker) findRoot(parts process.Maps) uint64 {
	im := w.image
	led := make(map[uint64]bool)
	for _, u := range im.units {
		led[u.next] = true
	}
	i := slices.IndexFunc(im.units, func(u *unit) bool { return !led[u.addr] })
	if i < 0 || im.units[i].clang || im.rootSize() == im.pointer {
		return 0
	}
	first := make([]byte, 8)
	addr := im.there(im.units[i].addr)
	im.order.PutUint64(first, addr)
	if im.pointer == 4 {
		im.order.PutUint32(first, uint32(addr))
	}
	first = first[:im.pointer]
	last := parts[len(parts)-1]
	if bss := w.maps.At(last.End); bss != nil && bss.Inode == 0 {
		parts = append(slices.Clone(parts), *bss)
	}
	for _, m := range parts {
		if !m.Read || !m.Write {
			continue
		}
		b := make([]byte, min(m.End-m.Start, maxRootScan))
		n, _ := w.mem.ReadAt(b, int64(m.Start))
		for at := 0; at+im.rootSize() <= n; at++ {
			i := bytes.Index(b[at:n], first)
			if i < 0 {
				break
			}
			at += i
			if at%im.pointer == 0 && at+im.rootSize() <= n && w.isRoot(b[at:at+im.rootSize()]) {
				return m.Start + uint64(at)
			}
		}
	}
	return 0
}

// isRoot tells whether b, which begins with the address of a unit, can be a root.
func (w *walker) isRoot(b []byte) bool {
	im := w.image
	flags := im.flags(b)
	if x := im.order.Uint32(b[im.pointer:]); flags == 0 && x != 0 || flags != 0 && bits.OnesCount32(x) != bits.OnesCount(uint(flags)) {
		return false
	}
	for _, addr := range im.neighbours(b) {
		if addr != 0 && (addr%uint64(im.pointer) != 0 || !w.isMapped(addr, false)) {
			return false
		}
	}
	return true
}

// identify gives an image that was found the number of its load: that of the one
// before at its place, if it is the same that has gone on being loaded.
func (p *CountedProcess) identify(im, before *image) {
	if before != nil && !before.gone && before.isPartOf(im) {
		im.id, im.files, im.counted = before.id, before.files, before.counted
		im.waited, im.judged, im.earlier, im.added = before.waited, before.judged, before.earlier, before.added
		return
	}
	p.loaded++
	im.id = p.loaded
}

// isPartOf tells whether all units are in another image at the same place, too:
// units come one after the other when a library is loaded.
func (im *image) isPartOf(o *image) bool {
	for _, u := range im.units {
		if !slices.ContainsFunc(o.units, func(v *unit) bool { return u.addr == v.addr && u.stamp == v.stamp && u.name == v.name }) {
			return false
		}
	}
	return true
}

// A ComesAndGoesError tells of an image that could not be read, because it was
// being loaded or closed at each try: it can be, the next time.
type ComesAndGoesError struct{ Image string }

func (e *ComesAndGoesError) Error() string {
	return fmt.Sprintf("%s: it is being loaded or closed: its counters are left out this time", e.Image)
}
