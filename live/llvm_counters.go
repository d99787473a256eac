//go:build linux

package live

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"

	"footfall/formats/llvm"
	"footfall/output"
	"footfall/process"
)

// A SourceProfile is the source-based counters of a program or library at one time: a raw profile of Clang or Rust, or counters of Go.
type SourceProfile struct {
	Image string // the program or library
	Name  string // a file name, without directories, that no other profile of the process has
	Bytes []byte // of the .profraw file that it would write now, or of the file of counters of Go (covcounters)

	BuildID string // of the image, in hexadecimal; "": it has none

	// Of Go: its meta-data (covmeta), nil for others, the name of their file, and whether counters only tell that
	// something ran.
	Meta     []byte
	MetaName string
	Sets     bool

	// Inherited is what processes had of the counts of their parents, as Bytes of a profile, where it has been taken out of Bytes,
	// and the parents' counts are here or in other profiles; nil: nothing. See llvm.Counted.
	Inherited []byte

	counters int64
	parts    rawParts
	records  rawRecords
	own      ownFile
}

// rawRecords say where the counters of each function are.
type rawRecords struct {
	llvm.RecordLayout
	address  func(b []byte) uint64
	wrap     func(uint64) uint64
	counters uint64 // the section's address, or its distance from the first record
	relative bool   // pointers count from their record
}

// rawParts say where in a raw profile counters are.
type rawParts struct {
	order                         byteOrder
	records, counters, bits, rest int // where they begin, and what follows them
	countersSize, namesSize       int
	single                        bool // each is a byte: 0 once it ran
	addresses                     [2]int
}

// Key tells the profiles of a process apart, in all of its snapshots.
func (p *SourceProfile) Key() string {
	if p.Meta != nil {
		return p.Image + " (Go)"
	}
	return p.Image
}

// counterBytes is the size of the counters.
func (p *SourceProfile) counterBytes() int64 { return p.counters }

// Profiles reads all source-based counters as they are now. Images that cannot
// be used are told in the error, beside those that can; without any the error
// is why there are none: ErrNoCounters, process.ErrExited.
func (p *CountedProcess) Profiles() ([]SourceProfile, error) {
	var err error
	for try := range 3 {
		if err = p.proc.Check(); err != nil {
			break
		}
		if err = p.refresh(try > 0); err != nil {
			return nil, err
		}
		var profiles []SourceProfile
		var problems []error
		if profiles, problems, err = p.profiles(); err == nil {
			if len(profiles)+len(problems) == 0 {
				problems = append(problems, ErrNoCounters)
			}
			err = errors.Join(problems...)
			if len(profiles) > 0 || err == nil {
				return profiles, err
			}
			break
		}
	}
	if exited := p.proc.Check(); exited != nil {
		err = exited
	}
	return nil, fmt.Errorf("process %d (%s): %w", p.PID, output.Printable(p.Name), err)
}

// HasProfiles tells whether some image, when it was last looked for them, had counters that Profiles gives.
func (p *CountedProcess) HasProfiles() bool { return p.hasProfiles() }

// HasCoverage tells whether some of these are of coverage: others, of -fprofile-generate, are for compilers only.
func (p *CountedProcess) HasCoverage() bool {
	return slices.ContainsFunc(p.images, func(im *image) bool {
		return im.profile != nil && im.profErr == nil && im.profile.coverage || im.golang != nil
	})
}

func (p *CountedProcess) hasProfiles() bool {
	return slices.ContainsFunc(p.images, func(im *image) bool { return im.profile != nil && im.profErr == nil || im.golang != nil })
}

// profiles reads those of the images that are known. Problems are of single
// images; an error says that images have changed meanwhile, perhaps.
func (p *CountedProcess) profiles() (profiles []SourceProfile, problems []error, err error) {
	var images []*image
	for _, im := range p.images {
		if im.profile == nil {
			continue
		}
		if im.profErr == nil {
			images = append(images, im)
		} else {
			problems = append(problems, fmt.Errorf("%s: source-based counters: %w", im.path, im.profErr))
		}
	}
	maps, _, err := p.proc.Maps()
	if err != nil {
		return nil, nil, err
	}
	reads := make([]profileRead, len(images))
	var ranges []process.MemoryRange
	for i, im := range images {
		if ranges, err = reads[i].plan(im.profile, p.proc, maps, ranges); err != nil {
			return nil, nil, err
		}
	}
	if err := p.proc.ReadRanges(ranges); err != nil {
		return nil, nil, err
	}
	taken := make(map[string]bool)
	for i, im := range images {
		r := &reads[i]
		values, err := im.profile.values(r.data, p.proc)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: values of source-based counters: %w", im.path, err))
			continue
		}
		own := im.profile.ownFile(r.data)
		profiles = append(profiles, SourceProfile{
			Image: im.path, Name: profileName(im.path, taken), Bytes: im.profile.encode(r.data, r.counters, r.bits, values),
			BuildID: hex.EncodeToString(own.ids), counters: int64(len(r.counters)), parts: im.profile.parts(), records: im.profile.records(), own: own,
		})
	}
	more, failed := p.golangProfiles(maps)
	return append(profiles, more...), append(problems, failed...), nil
}

// ownFile tells where the program would write the profile; data are its records.
func (p *llvmSections) ownFile(data []byte) ownFile {
	o := ownFile{known: p.patternAt != 0, pattern: p.pattern, signature: p.signatureOf(data)}
	if len(p.ids) > 8 {
		o.ids = p.ids[8:min(uint64(len(p.ids)), 8+p.order.Uint64(p.ids))]
	}
	return o
}

// records are those of a raw profile of the image.
func (p *llvmSections) records() rawRecords {
	r := rawRecords{RecordLayout: p.raw.Record(p.pointer), address: p.address, wrap: p.wrap, counters: p.counters.addr, relative: p.raw.Number() >= 8}
	if r.relative {
		r.counters -= p.data.addr
	}
	return r
}

// parts are those of a raw profile of the image.
func (p *llvmSections) parts() rawParts {
	counters, bits, names := p.inFile(0)
	at := rawParts{
		order: p.order, records: int(counters - p.data.size), counters: int(counters), bits: int(bits), rest: int(names),
		countersSize: int(p.counters.size), namesSize: len(p.text), single: p.raw&llvm.FlagSingleBytes != 0,
	}
	// See encode.
	last := at.records - len(p.ids) - 16
	if p.raw.Number() >= 10 {
		last -= 16
	}
	at.addresses = [2]int{last - 8, last} // of counters or bitmaps, where there are none their distance, and of names
	return at
}

// Subtract takes away what was counted when before, Bytes of an earlier time, was read: of bytes and bitmaps, which only
// say that something ran, what had run by then. Counts of values stay. If a count has fallen since, the program began from
// zero again, and nothing is taken away.
func (p *SourceProfile) Subtract(before []byte) error {
	if p.Meta != nil {
		return p.subtractGo(before)
	}
	if !p.isOf(before) {
		return errOtherBuild
	}
	p.Bytes = p.less(before[p.parts.counters:p.parts.rest]).Bytes
	return nil
}

// profileName makes a file name of an image's.
func profileName(image string, taken map[string]bool) string {
	base := path.Base(path.Clean("/" + image))
	if base == "/" {
		base = "program"
	}
	name := base + ".profraw"
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d.profraw", base, n)
	}
	taken[name] = true
	return name
}

// A profileRead is memory of a profile.
type profileRead struct{ data, counters, bits []byte }

// place says where counters and bitmaps are: elsewhere when the program maps
// its file on them (continuous mode).
func (p *llvmSections) place(mem memory, maps process.Maps) (counters, bits section, err error) {
	counters, bits = p.counters, p.bits
	if file := p.mappedFile(mem, maps); file != 0 {
		counters.addr, bits.addr, _ = p.inFile(file)
		return counters, bits, nil
	}
	if counters.addr, err = p.moved(counters.addr, p.counterBias, mem); err == nil {
		bits.addr, err = p.moved(bits.addr, p.bitBias, mem)
	}
	return counters, bits, err
}

// plan adds what is to be read.
func (r *profileRead) plan(p *llvmSections, mem memory, maps process.Maps, ranges []process.MemoryRange) ([]process.MemoryRange, error) {
	counters, bits, err := p.place(mem, maps)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		section
		to *[]byte
	}{{p.data, &r.data}, {counters, &r.counters}, {bits, &r.bits}} {
		*part.to = make([]byte, part.size)
		if part.size > 0 {
			ranges = append(ranges, process.MemoryRange{Addr: part.addr, Bytes: *part.to})
		}
	}
	return ranges, nil
}

// mappedFile finds the file that a stripped program has mapped in place of its
// counters, 0 if there is none: one with the same names. Others have a variable
// that tells.
func (p *llvmSections) mappedFile(mem memory, maps process.Maps) uint64 {
	if p.versionAt != 0 || len(p.text) == 0 {
		return 0
	}
	magic := p.order.AppendUint64(nil, rawMagic(p.pointer))
	for _, m := range maps {
		if !m.Write || m.Offset != 0 || m.Inode == 0 {
			continue
		}
		_, _, names := p.inFile(m.Start)
		head, text := make([]byte, len(magic)), make([]byte, len(p.text))
		if names+uint64(len(text)) > m.End {
			continue
		}
		if _, err := mem.ReadAt(head, int64(m.Start)); err != nil || !bytes.Equal(head, magic) {
			continue
		}
		if _, err := mem.ReadAt(text, int64(names)); err == nil && bytes.Equal(text, p.text) {
			return m.Start
		}
	}
	return 0
}

// inFile says where counters, bitmaps and names are in a file at that address.
func (p *llvmSections) inFile(start uint64) (counters, bits, names uint64) {
	head := len(p.encode(nil, nil, nil, nil)) - len(p.text) - len(padding(len(p.text)))
	counters = start + uint64(head) + p.data.size
	bits = counters + (p.counters.size+7)&^7
	return counters, bits, bits + (p.bits.size+7)&^7
}

// moved adds the distance that the variable has, if there is one.
func (p *llvmSections) moved(addr, variable uint64, mem memory) (uint64, error) {
	if variable == 0 {
		return addr, nil
	}
	b := make([]byte, p.pointer)
	if _, err := mem.ReadAt(b, int64(variable)); err != nil {
		return 0, err
	}
	if bias := p.address(b); bias != p.wrap(^uint64(0)) { // not set so far
		addr = p.wrap(addr + bias)
	}
	return addr, nil
}
