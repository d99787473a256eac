package binary

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A madeSection is one of a file that a test makes.
type madeSection struct {
	name  string
	kind  elf.SectionType
	flags elf.SectionFlag
	bytes []byte
	size  uint64 // that it claims; 0: what it has
	link  uint32
	// nameAt is where its name is, 0: where it is written.
	nameAt uint32
}

// madeFile is a program of sections.
func madeFile(sections ...madeSection) []byte {
	names := "\x00"
	var headers, contents []byte
	at := uint64(64)
	header := func(s madeSection) {
		var h elf.Section64
		h.Name, h.Type, h.Flags, h.Off, h.Size = uint32(len(names)), uint32(s.kind), uint64(s.flags), at, max(s.size, uint64(len(s.bytes)))
		h.Link = s.link
		if s.nameAt > 0 {
			h.Name = s.nameAt
		}
		headers, _ = binary.Append(headers, binary.LittleEndian, &h)
		contents = append(contents, s.bytes...)
		at += uint64(len(s.bytes))
	}
	headers = make([]byte, 64)
	for _, s := range sections {
		header(s)
		names += s.name + "\x00"
	}
	if last := sections[len(sections)-1]; last.name != ".shstrtab" {
		s := madeSection{name: ".shstrtab", kind: elf.SHT_STRTAB, bytes: []byte(names + ".shstrtab\x00")}
		header(s)
	}
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shoff: at, Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	h.Shnum = uint16(len(headers) / 64)
	h.Shstrndx = h.Shnum - 1
	b, _ := binary.Append(nil, binary.LittleEndian, &h)
	return append(append(b, contents...), headers...)
}

func TestClaimsOfHeaders(t *testing.T) {
	for what, b := range map[string][]byte{
		"names of sections": madeFile(madeSection{name: ".shstrtab", kind: elf.SHT_STRTAB, size: 1 << 40}),
		"names of symbols":  madeFile(madeSection{name: ".strtab", kind: elf.SHT_STRTAB, size: 1 << 40}),
		"compressed symbols": madeFile(madeSection{name: ".symtab", kind: elf.SHT_SYMTAB, flags: elf.SHF_COMPRESSED,
			bytes: append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10}, make([]byte, 100)...)}),
	} {
		if _, err := Open(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "expected at most") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// uleb is a number as DWARF has it.
func uleb(n uint64) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func sized(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// madeLines is a program with a unit in a directory, which has code from 0x1000 to
// 0x2000 and these lines, and the entries below it.
func madeLines(directory string, lines, entries, abbreviations []byte) []byte {
	abbrev := []byte("\x01\x11\x01\x1b\x08\x10\x17\x11\x01\x12\x07\x00\x00")
	info := append([]byte{5, 0, 1, 8, 0, 0, 0, 0, 1}, directory+"\x00"...)
	info = append(info, 0, 0, 0, 0)
	info = binary.LittleEndian.AppendUint64(info, 0x1000)
	info = binary.LittleEndian.AppendUint64(info, 0x1000)
	info = append(append(info, entries...), 0)
	return madeFile(
		madeSection{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, bytes: append(append(abbrev, abbreviations...), 0)},
		madeSection{name: ".debug_info", kind: elf.SHT_PROGBITS, bytes: sized(info)},
		madeSection{name: ".debug_line", kind: elf.SHT_PROGBITS, bytes: lines},
	)
}

// line5 are lines of version 5 with that in place of directories and files, and one row:
// line 7 at 0x1000.
func line5(names []byte) []byte {
	header := append([]byte{1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}, names...)
	program := []byte{0, 9, 2, 0, 0x10, 0, 0, 0, 0, 0, 0, 3, 6, 1, 2, 4, 0, 1, 1}
	return sized(append(append([]byte{5, 0, 8, 0}, sized(header)...), program...))
}

func linesOf(t *testing.T, b []byte) *Lines {
	t.Helper()
	f, err := Open(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	l, err := f.Lines()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestClaimsOfLines: what has no room for the names that it claims has no lines, and
// what has is read.
func TestClaimsOfLines(t *testing.T) {
	name := []byte{1, 1, 8} // one number for a directory or file: its name, as text
	one := bytes.Join([][]byte{name, uleb(1), []byte("/d\x00"), name, uleb(2), []byte("a.c\x00a.c\x00")}, nil)
	frames := linesOf(t, madeLines("/d", line5(one), nil, nil)).Frames(0x1001)
	if len(frames) != 1 || frames[0].File != "a.c" || frames[0].Line != 7 {
		t.Errorf("%+v", frames)
	}
	for what, names := range map[string][]byte{
		"more directories than a slice has": bytes.Join([][]byte{name, uleb(1 << 62)}, nil),
		"more directories than memory":      bytes.Join([][]byte{name, uleb(1 << 36)}, nil),
		"directories without names":         bytes.Join([][]byte{{0}, uleb(1 << 36)}, nil),
		"more files than a slice has":       bytes.Join([][]byte{name, uleb(0), name, uleb(1 << 62)}, nil),
		"a directory as long as no path":    bytes.Join([][]byte{name, uleb(1), []byte(strings.Repeat("d", 5000) + "\x00"), {0, 0}}, nil),
	} {
		if frames := linesOf(t, madeLines("/d", line5(names), nil, nil)).Frames(0x1001); len(frames) > 0 && frames[0].File != "" {
			t.Errorf("%s: %+v", what, frames)
		}
	}
}

// TestManyAttributes: entries of a byte each that have many attributes without one are
// not read to the end.
func TestManyAttributes(t *testing.T) {
	abbreviation := []byte{2, 0x2e, 0}
	for range 10000 {
		abbreviation = append(abbreviation, 0x3f, 0x19) // external, which is there
	}
	l := linesOf(t, madeLines("/d", line5([]byte{0, 0, 0, 0}), bytes.Repeat([]byte{2}, 100000), append(abbreviation, 0, 0)))
	l.Frames(0x1001)
	if l.left > 0 {
		t.Errorf("a thousand million attributes were read")
	}
}

// TestDeepEntries: to pass what is nested takes no memory.
func TestDeepEntries(t *testing.T) {
	const deep = 1 << 20
	abbreviation := []byte{2, 0x0f, 1, 0, 0} // a pointer with children
	l := linesOf(t, madeLines("/d", line5([]byte{0, 0, 0, 0}), bytes.Repeat([]byte{2}, deep), abbreviation))
	l.left = deep / 2
	l.Frames(0x1001)
	if l.left > 0 {
		t.Errorf("%d entries were not counted", l.left)
	}
}

// TestParametersOfNoSize: structures whose members have sizes that no type has, or
// contain each other, are not known.
func TestParametersOfNoSize(t *testing.T) {
	nothing := &dwarf.FloatType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{ByteSize: 0}}}
	less := &dwarf.FloatType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{ByteSize: -1}}}
	many := dwarf.Type(&dwarf.CharType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{ByteSize: 1}}})
	for range 15 {
		many = &dwarf.ArrayType{Type: &dwarf.StructType{CommonType: dwarf.CommonType{ByteSize: 1}, Field: []*dwarf.StructField{{Type: many}, {Type: many}}}, Count: 1}
	}
	for what, member := range map[string]dwarf.Type{"of no size": nothing, "of less": less, "again and again": many} {
		var words [2]struct{ integer, float bool }
		steps := 0
		if err := fill(&words, member, 0, &steps, 0); err == nil {
			t.Errorf("%s: %+v", what, words)
		}
	}
}

// sparse writes a file whose last bytes are so far away that all before them is a hole.
func sparse(t *testing.T, head []byte, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(head); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestHoles: tables and debug information that are holes in the file are not read.
func TestHoles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells of holes")
	}
	for _, s := range []madeSection{
		{name: ".symtab", kind: elf.SHT_SYMTAB, size: 1 << 29},
		{name: ".strtab", kind: elf.SHT_STRTAB, size: 1 << 29},
		{name: ".debug_info", kind: elf.SHT_PROGBITS, size: 1 << 29},
	} {
		r := sparse(t, madeFile(s), 1<<30)
		f, err := Open(r)
		if err == nil {
			_, err = f.Lines()
		}
		if err == nil || !strings.Contains(err.Error(), "most are there") {
			t.Errorf("%s: %v", s.name, err)
		}
		s.size = mostHole / 2
		if _, err = Open(sparse(t, madeFile(s), mostHole)); err != nil {
			t.Errorf("small %s: %v", s.name, err)
		}
	}
}

// TestNamesAgain: thousands of sections or symbols of one long name do not take its bytes
// each.
func TestNamesAgain(t *testing.T) {
	long := "\x00" + strings.Repeat("n", 1<<20) + "\x00"
	symbol := append([]byte{1, 0, 0, 0, 2, 0, 1, 0}, make([]byte, 16)...)
	b := madeFile(
		madeSection{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, bytes: []byte{0xc3}},
		madeSection{name: ".symtab", kind: elf.SHT_SYMTAB, bytes: bytes.Repeat(symbol, 100), link: 3},
		madeSection{name: ".strtab", kind: elf.SHT_STRTAB, bytes: []byte(long)},
	)
	f, err := Open(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Functions(); !errors.Is(err, errLongNames) {
		t.Errorf("symbols: %v", err)
	}
	var sections []madeSection
	for range 100 {
		sections = append(sections, madeSection{name: "", kind: elf.SHT_PROGBITS, bytes: []byte{1}, nameAt: 1})
	}
	b = madeFile(append(sections, madeSection{name: ".shstrtab", kind: elf.SHT_STRTAB, bytes: []byte(long)})...)
	if _, err := Open(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "names of its sections have") {
		t.Errorf("sections: %v", err)
	}
}

// TestOverlaps: sections have their bytes for themselves.
func TestOverlaps(t *testing.T) {
	code := madeSection{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, size: 1 << 20}
	sections := []madeSection{code, code, code, code, code}
	b := append(madeFile(sections...), make([]byte, 1<<20)...)
	if _, err := Open(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "its sections claim") {
		t.Error(err)
	}
}

// typesFrom are abbreviations and entries: a function at 0x1000 with one parameter, whose
// type is the first of those that follow, N of them, made by each from the offset of the
// next.
func typesFrom(n int, tag byte, each func(i int, at, next uint32) uint32) (entries, abbreviations []byte) {
	abbreviations = []byte{
		2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, // a function from, as long as
		3, 0x05, 0, 0x49, 0x13, 0, 0, // a parameter of type
		4, tag, 0, 0x49, 0x13, 0, 0, // a type of type
	}
	const unitHead = 12 + 1 + 3 + 4 + 8 + 8 // to the entries of a unit in /d
	const function = 1 + 8 + 8 + 5 + 1
	entries = append([]byte{2, 0, 0x10, 0, 0, 0, 0, 0, 0}, 0, 1, 0, 0, 0, 0, 0, 0)
	first := uint32(unitHead + function)
	entries = append(binary.LittleEndian.AppendUint32(append(entries, 3), first), 0)
	for i := range n {
		at := first + 5*uint32(i)
		entries = binary.LittleEndian.AppendUint32(append(entries, 4), each(i, at, at+5))
	}
	return entries, abbreviations
}

// TestTypesWithoutEnd: types that lead to themselves, or to each other by the million,
// are an error, not the end of the stack.
func TestTypesWithoutEnd(t *testing.T) {
	const pointer, typedef = 0x0f, 0x16
	next := func(_ int, _, next uint32) uint32 { return next }
	for what, c := range map[string]struct {
		n    int
		tag  byte
		each func(i int, at, next uint32) uint32
		bad  bool
	}{
		"pointers":            {1000, pointer, next, false},
		"too many pointers":   {mostTypeDepth + 1, pointer, next, true},
		"a name of itself":    {1, typedef, func(_ int, at, _ uint32) uint32 { return at }, true},
		"names of each other": {2, typedef, func(i int, at, next uint32) uint32 { return []uint32{next, at - 5}[i] }, true},
		"too many names":      {mostTypeNames + 1, typedef, next, true},
	} {
		entries, abbreviations := typesFrom(c.n, c.tag, c.each)
		l := linesOf(t, madeLines("/d", line5([]byte{0, 0, 0, 0}), entries, abbreviations))
		_, err := l.Parameters(0x1000)
		if bad := errors.Is(err, errDeepTypes); bad != c.bad || errors.Is(err, ErrNoLines) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestDefinedFiles: files that lines name one by one are counted with their directories.
func TestDefinedFiles(t *testing.T) {
	directory := "/" + strings.Repeat("d", 4000)
	program := bytes.Repeat([]byte{0, 6, 3, 'f', 0, 1, 0, 0}, 20000)
	header := append([]byte{1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}, directory+"\x00\x00\x00"...)
	lines := sized(append(append([]byte{3, 0}, sized(header)...), program...))
	l := linesOf(t, madeLines("/d", lines, nil, nil))
	before := l.left
	l.Frames(0x1001)
	if spent := before - l.left; spent < 20000*4000/bytesOfName {
		t.Errorf("%d names of 4000 bytes cost %d", 20000, spent)
	}
	l.left, l.units[0].loaded, l.units[0].files = 1000, false, nil
	if l.Frames(0x1001); len(l.units[0].files) > 0 {
		t.Errorf("%d files", len(l.units[0].files))
	}
}
