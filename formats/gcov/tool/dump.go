package tool

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"footfall/formats/gcov"
	"footfall/formats/gcov/getopt"
	"footfall/input"
)

// A DumpInvocation is one run of gcov-dump.
type DumpInvocation struct {
	Prog   string // as it was called, for messages
	Args   []string
	Stdout io.Writer
	Stderr io.Writer
	// Version is the gcov-dump that we are to be, 0 for that of each file.
	Version gcov.Version
}

// RunDump does what gcov-dump does: it prints the records of notes and data
// files. The layout is always that of the file; a Version of another compiler
// adds only the warning that gcov-dump prints. It returns the exit status, which
// is gcov-dump's: 0, whatever happens.
func RunDump(inv *DumpInvocation) int {
	out := bufio.NewWriter(inv.Stdout)
	defer out.Flush()
	d := &dumper{inv: inv, out: out, most: mostUnstored}
	g := getopt.Parser{Prog: filepath.Base(inv.Prog), Short: dumpLetters(inv.Version), Long: dumpLongOptions(inv.Version), Stderr: inv.Stderr, Args: inv.Args}
	for opt, _ := g.Next(); opt != 0; opt, _ = g.Next() {
		switch opt {
		case 'h':
			io.WriteString(out, dumpUsage)
		case 'v':
			v := cmp.Or(inv.Version, gcov.MakeVersion(gcov.Newest, 0))
			fmt.Fprintf(out, "gcov-dump (footfall) %s\nThis is footfall, which prints what gcov-dump of that version prints.\n\n", v.Text())
		case 'l':
			d.contents = true
		case 'p':
			d.positions = true
		case 'r':
			d.raw = true
		case 's':
			d.stable = true
		default:
			fmt.Fprintf(inv.Stderr, "unknown flag `%c'\n", opt)
		}
	}
	d.current = currentVersion(inv.Version, g.Operands)
	for _, name := range g.Operands {
		b, err := input.ReadFile(name, input.MostData)
		if err != nil && !errors.Is(err, syscall.EISDIR) { // which is an empty file to gcov-dump
			fmt.Fprintf(inv.Stderr, "%s:cannot open\n", name)
			continue
		}
		d.file(name, b)
		if d.unprinted {
			out.Flush()
			fmt.Fprintf(inv.Stderr, "%s: has more than %d values that take no room in the file, or %d beyond its end, or lists of lines that go on over other records: the others are not printed; is it damaged?\n", name, d.most, mostBeyond)
		}
	}
	return 0
}

// currentVersion is the version with a minor one: if want has none, that of the first file of
// the same major version.
func currentVersion(want gcov.Version, names []string) gcov.Version {
	if want.Number()%10 != 0 {
		return want
	}
	for _, name := range names {
		var b [8]byte
		f, err := input.Open(name)
		if err != nil {
			continue
		}
		_, err = io.ReadFull(f, b[:])
		f.Close()
		order := binary.ByteOrder(binary.LittleEndian)
		if b[0] == 'g' {
			order = binary.BigEndian
		}
		if v := gcov.Version(order.Uint32(b[4:])); err == nil && v.Major() == want.Major() {
			return v
		}
	}
	return want
}

// dumpLetters are the options of one letter.
func dumpLetters(v gcov.Version) string {
	switch {
	case v.AtLeast(130):
		return "hlprsvw"
	case v.AtLeast(110):
		return "hlprvw"
	}
	return "hlpvw"
}

// dumpLongOptions are the options with names. The letter of --positions is a
// mistake of gcov-dump's: there is no option -o.
func dumpLongOptions(v gcov.Version) []getopt.Option {
	o := []getopt.Option{getopt.Flag("help", 'h'), getopt.Flag("version", 'v'), getopt.Flag("long", 'l'), getopt.Flag("positions", 'o')}
	if v.AtLeast(130) {
		o = append(o, getopt.Flag("raw", 'r'), getopt.Flag("stable", 's'))
	}
	return o
}

const dumpUsage = `Usage: gcov-dump [OPTION...] FILE...

Print the records of notes and data files.

  -l, --long       print what is in the records too
  -p, --positions  print where the records stand: bytes, before GCC 12 words
  -r, --raw        print counters on one line
  -s, --stable     print values of profiles in a fixed order
  -h, --help       print this help
  -v, --version    print the version

This is footfall's gcov-dump.
`

type dumper struct {
	inv                              *DumpInvocation
	out                              *bufio.Writer
	contents, positions, raw, stable bool
	current                          gcov.Version // as warnings tell it

	name  string
	v     gcov.Version
	r     *gcov.LooseReader
	depth int // of the current record
	// most values are printed of a file that take no room in it, budget is how many
	// more of the current one, and beyond how many that are read beyond its end.
	most, budget, beyond int
	lists                int      // bytes of lists of lines behind the ends of their records
	unprinted            bool     // there were more
	room                 [20]byte // for a number
}

// mostUnstored is how many values are printed of a file that take no room in it:
// zeros, of which since GCC 12 only the number is stored, and what is read beyond
// the end. Gcov-dump believes every length, and prints gigabytes of zeros of a
// file of 40 bytes. No object that a compiler makes has as many, and no record, of
// which only the last can go beyond the end, mostBeyond.
const (
	mostUnstored = 1 << 22
	mostBeyond   = 1 << 18
)

// kindNames are the kinds of counters as gcov-dump names them since GCC 10.
var kindNames = []string{"arcs", "interval", "pow2", "topn", "indirect_call", "average", "ior", "time_profiler", "conditions", "ior"}

// kindName is the name of a kind, "" for one that programs of that version do
// not have.
func kindName(v gcov.Version, kind int) string {
	switch {
	case v.Number() < 100 && kind == 3:
		return "single"
	case v.Number() < 100 && kind == 8:
		return "indirect_call_topn"
	case v.CounterKinds() > 0 && kind >= v.CounterKinds(), kind >= len(kindNames):
		return ""
	}
	return kindNames[kind]
}

func (d *dumper) printf(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }

// file prints the head of a file and its records.
func (d *dumper) file(name string, b []byte) {
	d.name, d.budget, d.beyond, d.lists, d.unprinted = name, d.most, mostBeyond, 0, false
	d.r = &gcov.LooseReader{B: b, Order: binary.LittleEndian}
	kind, swapped := "", ""
	switch magic := d.r.Word(); magic {
	case gcov.DataMagic, bits.ReverseBytes32(gcov.DataMagic):
		kind = "data"
		swapped = d.swap(magic, gcov.DataMagic)
	case gcov.NotesMagic, bits.ReverseBytes32(gcov.NotesMagic):
		kind = "note"
		swapped = d.swap(magic, gcov.NotesMagic)
	default:
		if d.inv.Version == 0 && d.legacy(name, b) {
			return
		}
		d.printf("%s:not a gcov file\n", name)
		return
	}
	version := gcov.Version(d.r.Word())
	d.v = version
	if d.v.Number() == 0 {
		d.v = d.inv.Version // as good as any
	}
	d.r.Bytes = d.v.ByteLengths()
	magic := b[:4:4]
	if d.r.Order == binary.LittleEndian {
		magic = slices.Clone(magic)
		slices.Reverse(magic)
	}
	if swapped != "" {
		// Printed as it stands, before the bytes are put right.
		slices.Reverse(magic)
	}
	d.printf("%s:%s:magic `%s':version `%s'%s\n", name, kind, magic, cString(version), swapped)
	if want := d.inv.Version; want != 0 && want.Major() != version.Major() {
		d.printf("%s:warning:current version is `%s'\n", name, d.current)
	}
	d.printf("%s:stamp %d\n", name, d.r.Word())
	if d.v.HasObjectChecksum() {
		d.printf("%s:checksum %d\n", name, d.r.Word())
	}
	if kind == "note" {
		if d.v.HasCwd() {
			d.printf("%s:cwd: %s\n", name, d.text("(null)"))
		}
		if d.v.HasUnexecuted() && d.r.Word() == 0 {
			d.printf("%s: has_unexecuted_block is not supported\n", name)
		}
	}
	if !d.r.Bytes {
		d.r.B = d.r.B[:len(d.r.B)&^3]
	}
	d.records()
}

// swap sets the byte order and returns what gcov-dump says of files of another
// machine than ours.
func (d *dumper) swap(magic, want uint32) string {
	if magic == want {
		return ""
	}
	d.r.Order = binary.BigEndian
	return " (swapped endianness)"
}

// cString is a version as %.4s prints it.
func cString(v gcov.Version) string {
	s, _, _ := strings.Cut(v.String(), "\x00")
	return s
}

// text reads a string; gcov takes one that is empty or cut for none.
func (d *dumper) text(none string) string {
	n := d.r.Size(d.r.Word())
	if n <= 0 || n > len(d.r.B)-d.r.Pos {
		if n != 0 {
			d.stop()
		}
		return none
	}
	s := d.r.B[d.r.Pos : d.r.Pos+n]
	d.r.Pos += n
	if i := bytes.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return string(s)
}

// stop makes all further reads of the record find the end of the file, as after
// one that did not get all it asked for. Before GCC 12 such a read leaves the
// position where it was.
func (d *dumper) stop() {
	d.r.Short = true
	if !d.r.Bytes {
		d.r.B = d.r.B[:d.r.Pos]
	}
	d.r.Pos = len(d.r.B)
}

// count reads a counter.
func (d *dumper) count() int64 {
	if len(d.r.B)-d.r.Pos < 8 {
		d.stop()
		return 0
	}
	return d.r.Counter()
}

// position is where the reader stands, in the unit of lengths.
func (d *dumper) position() int {
	if d.r.Bytes {
		return d.r.Pos
	}
	return d.r.Pos / 4
}

// prefix begins a line at a position.
func (d *dumper) prefix(depth, position int) {
	d.out.WriteString(d.name)
	d.out.WriteByte(':')
	if d.positions {
		d.number(int64(position), 5)
		d.out.WriteByte(':')
	}
	d.out.WriteString("    "[:min(2*depth, 4)])
}

// number prints a number of at least so many places. There can be millions.
func (d *dumper) number(n int64, width int) {
	digits := strconv.AppendInt(d.room[:0], n, 10)
	for range width - len(digits) {
		d.out.WriteByte(' ')
	}
	d.out.Write(digits)
}

// records prints all records. They nest by their tags: that of an inner record
// has fewer zero bytes at its end.
func (d *dumper) records() {
	var tags [4]uint32
	depth, all := 0, d.r.B
	for {
		position := d.position()
		tag := d.r.Word()
		if tag == 0 {
			return
		}
		length := int(int32(d.r.Word()))
		base := d.r.Pos
		level := d.level(tag)
		if depth > 0 && depth < level && !isSubtag(tags[depth-1], tag) {
			d.printf("%s:tag `%08x' is incorrectly nested\n", d.name, tag)
		}
		depth, d.depth = level, level
		tags[depth-1] = tag
		d.prefix(level, position)
		size := d.record(tag, length)
		d.out.WriteByte('\n')
		end := base + d.r.Size(uint32(size))
		if actual := (d.r.Pos - base) / (d.r.Size(1)); d.contents && d.interprets(tag) && actual != size {
			if actual > size {
				d.printf("%s:record size mismatch %d bytes overread\n", d.name, actual-size)
			} else {
				d.printf("%s:record size mismatch %d bytes unread\n", d.name, size-actual)
			}
		}
		d.r.B = all
		d.r.Pos = min(end, len(d.r.B))
		if d.r.Short && d.v.NoticesCuts() {
			d.printf("%s:read error at %d\n", d.name, end)
			return
		}
	}
}

// level is 1 for a tag with three zero bytes at its end, 4 for one without.
func (d *dumper) level(tag uint32) int {
	level := 4
	for mask := ((tag - 1) ^ tag) >> 1; mask != 0; mask >>= 8 {
		if mask&0xff != 0xff {
			d.printf("%s:tag `%08x' is invalid\n", d.name, tag)
			break
		}
		level--
	}
	return level
}

func isSubtag(tag, sub uint32) bool {
	mask := func(t uint32) uint32 { return (t - 1) ^ t }
	return mask(tag)>>8 == mask(sub) && (sub^tag)&^mask(tag) == 0
}

// interprets tells whether record knows the insides of such a record.
func (d *dumper) interprets(tag uint32) bool {
	switch tag {
	case gcov.TagFunction, gcov.TagBlocks, gcov.TagArcs, gcov.TagLines:
		return true
	case gcov.TagObjectSummary:
		return d.v.ObjectRuns()
	case gcov.TagConditions:
		return d.v.Number() >= 140
	case gcov.TagPaths:
		return d.v.Number() >= 160
	}
	return d.counterName(tag) != ""
}

// counterName is the kind of counters with that tag, "" for another record.
func (d *dumper) counterName(tag uint32) string {
	if tag < gcov.TagCounters || tag&0xffff != 0 {
		return ""
	}
	return kindName(d.v, int(tag-gcov.TagCounters)>>17)
}

// record prints a record after its prefix and returns its length.
func (d *dumper) record(tag uint32, length int) (size int) {
	shown := length
	if size = max(length, 0); !d.v.OmitsZeros() {
		size = int(uint32(length))
		shown = size
	} else if length < 0 {
		shown = -length
	}
	head := func(name string) { d.printf("%08x:%4d:%s", tag, shown, name) }
	switch {
	case !d.interprets(tag):
		head("UNKNOWN")
	case tag == gcov.TagFunction:
		head("FUNCTION")
		d.function(length)
	case tag == gcov.TagBlocks:
		head("BLOCKS")
		d.blocks(length)
	case tag == gcov.TagArcs:
		head("ARCS")
		d.arcs(length)
	case tag == gcov.TagLines:
		head("LINES")
		d.lines(d.r.Pos + d.r.Size(uint32(size)))
	case tag == gcov.TagConditions:
		head("CONDITIONS")
		d.conditions(length)
	case tag == gcov.TagPaths:
		head("PATHS")
		d.printf(" %d paths", d.r.Word())
	case tag == gcov.TagObjectSummary:
		head("OBJECT_SUMMARY")
		d.printf(" runs=%d, sum_max=%d", int32(d.r.Word()), d.r.Word())
	default:
		head("COUNTERS")
		d.counters(d.counterName(tag), int(tag-gcov.TagCounters)>>17, length)
	}
	return size
}

func (d *dumper) function(length int) {
	if length == 0 {
		d.printf(" placeholder")
		return
	}
	end := d.r.Pos + d.r.Size(uint32(max(length, 0)))
	d.printf(" ident=%d", d.r.Word())
	d.printf(", lineno_checksum=0x%08x", d.r.Word())
	if d.v.HasCfgChecksum() {
		d.printf(", cfg_checksum=0x%08x", d.r.Word())
	}
	if d.r.Pos >= end {
		return
	}
	d.printf(", `%s'", d.text("NULL"))
	if d.r.Pos >= end { // Clang 9's data
		return
	}
	artificial := d.v.HasColumns() && d.r.Word() != 0
	d.printf(" %s:%d", d.text("NULL"), d.r.Word())
	if d.v.HasColumns() {
		d.printf(":%d-%d", d.r.Word(), d.r.Word())
	}
	if d.v.HasEndColumn() {
		d.printf(":%d", d.r.Word())
	}
	if artificial {
		d.printf(", artificial")
	}
}

// words is a length in words.
func (d *dumper) words(length int) int {
	if d.r.Bytes {
		return length / 4
	}
	return length
}

func (d *dumper) blocks(length int) {
	if d.v.HasColumns() {
		d.printf(" %d blocks", d.r.Word())
		return
	}
	n := d.words(length)
	d.printf(" %d blocks", uint32(n))
	for i := 0; d.contents && i < n && !d.r.Ended(); i++ {
		if i%8 == 0 {
			d.indent(d.position())
			d.printf("%2d:", i)
		}
		d.printf(" %04x", d.r.Word())
	}
}

// indent begins another line of the record.
func (d *dumper) indent(position int) {
	d.out.WriteByte('\n')
	d.prefix(d.depth, position)
	d.out.WriteString("              ")
}

func (d *dumper) arcs(length int) {
	n := (d.words(length) - 1) / 2
	d.printf(" %d arcs", uint32(n))
	if !d.contents {
		return
	}
	block := d.r.Word()
	for i := 0; i != n && d.more(); i++ {
		if i%4 == 0 {
			d.indent(d.position())
			d.printf("block %d:", block)
		}
		dst, flags := d.r.Word(), d.r.Word()
		d.arc(dst, flags)
	}
}

func (d *dumper) arc(dst, flags uint32) {
	d.printf(" %d:%04x", dst, flags)
	if flags == 0 {
		return
	}
	c := "("
	for _, f := range []struct {
		bit  uint32
		name string
	}{{gcov.ArcTree, "tree"}, {gcov.ArcFake, "fake"}, {gcov.ArcFallthrough, "fall"}} {
		if flags&f.bit != 0 {
			d.out.WriteString(c + f.name)
			c = ","
		}
	}
	d.out.WriteByte(')')
}

// more tells whether to print another value of a record.
func (d *dumper) more() bool {
	if !d.r.Ended() {
		return true
	}
	d.beyond--
	d.unprinted = d.unprinted || d.beyond < 0
	return d.beyond >= 0
}

// zeros takes n values that take no room in the file, and returns how many of
// them are printed.
func (d *dumper) zeros(n int) int {
	printed := min(n, d.budget)
	d.budget -= printed
	d.unprinted = d.unprinted || printed < n
	return printed
}

func (d *dumper) conditions(length int) {
	n := d.words(length) / 2
	d.printf(" %d conditions", uint32(n))
	for i := 0; d.contents && i != n && d.more(); i++ {
		position := d.position()
		block, terms := d.r.Word(), d.r.Word()
		if d.v.Number() < 160 {
			position = d.position()
		}
		d.indent(position)
		d.printf("block %d: %d", block, terms)
	}
}

// lines prints a list of lines, which ends where it says, wherever the record ends.
func (d *dumper) lines(end int) {
	if !d.contents {
		return
	}
	block := d.r.Word()
	open, separator := false, ""
	left := gcov.MostBeyond(d.r.B) - d.lists
	defer func() { d.lists += max(0, d.r.Pos-end) }()
	for {
		position := d.position()
		if d.r.Pos-end > left {
			d.unprinted = true
			return
		}
		line, source := d.r.Word(), ""
		if line == 0 {
			start := d.r.Pos
			if source = d.text(""); source == "" && (d.r.Pos-start <= 4 || d.r.Ended()) {
				return
			}
			open = false
		}
		if !open {
			d.indent(position)
			d.printf("block %d:", block)
			open, separator = true, ""
		}
		if line != 0 {
			d.printf("%s%d", separator, line)
			separator = ", "
		} else {
			d.printf("%s`%s'", separator, source)
			separator = ":"
		}
	}
}

func (d *dumper) counters(name string, kind, length int) {
	n := d.words(length) / 2
	zeros := n < 0 && d.v.OmitsZeros()
	switch {
	case zeros:
		n = -n
		d.printf(" %s %d counts (all zero)", name, n)
	case n < 0:
		n = int(uint32(n))
		fallthrough
	default:
		d.printf(" %s %d counts", name, n)
	}
	if !d.contents {
		return
	}
	stable := d.stable && (kind == gcov.KindTopN || kind == gcov.KindIndirect) && !zeros
	if stable || d.v.Number() >= 130 {
		// Since GCC 13 all are read before the first is printed, which shows in
		// the positions.
		d.allCounters(n, zeros, stable)
		return
	}
	if zeros {
		for i := range d.zeros(n) {
			d.counter(i)
			d.out.WriteString("0 ")
		}
		return
	}
	for i := 0; i != n && d.more(); i++ {
		d.counter(i)
		d.value(d.count())
	}
}

func (d *dumper) counter(i int) {
	switch {
	case d.raw && i == 0:
		d.out.WriteString(": ")
	case !d.raw && i%8 == 0:
		d.indent(d.position())
		d.number(int64(i), 2)
		d.out.WriteString(": ")
	}
}

func (d *dumper) allCounters(n int, zeros, stable bool) {
	var values []int64
	for i := 0; !zeros && i != n && d.more(); i++ {
		values = append(values, d.count())
	}
	if zeros {
		values = make([]int64, d.zeros(n))
	}
	if stable {
		c := gcov.Counters{Values: values}
		c.SortValues()
		values = c.Values
	}
	for i, x := range values {
		d.counter(i)
		d.value(x)
	}
}

func (d *dumper) value(x int64) {
	d.number(x, 0)
	d.out.WriteByte(' ')
}
