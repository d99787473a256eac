package instrument

import (
	"bytes"
	"fmt"
	"strings"
)

// What a file's counters mean stands in the section footfall_table, a block of
// 32-bit words for each function, or part of one that lies elsewhere:
//
//	 0  bytes of the block
//	 4  flags: bits 0-3 update mode, bit 4 part, bit 5 local, bit 6 weak, bits 8-15 CPU's word size in bytes,
//	    bits 16-31 version of this layout, 1
//	 8  address of the first counter   \
//	12  address of the code             > each less the address of this word
//	16  address of the unit's names    /
//	20  bytes of code, 0: not known
//	24  name
//	28  number of aliases
//	32  number of calls
//	36  address of the unit's further targets, less that of this word; 0: none
//	40  number of those
//	44  aliases: a name each; bit 31 local, bit 30 weak
//	    calls: kind and flags, counter (from the first), address (from that of
//	    the code), callee (0: indirect), a word each
//
// A name is an offset into the unit's names in section footfall_names: strings
// that end with a NUL, the unit's own first. The counter of a function's entry is its
// first; a part has none. As all addresses are relative, the table is read-only
// and needs no relocation when the program starts.
//
// Targets that found no room at their site are in a table of the unit: pairs of
// 64-bit words, the key and a count. The key's upper 16 bits are the distance of
// the site from the table, in words, the rest is the target.
//
// The block of a COMDAT function belongs to its group, so that the linker drops
// it with the function; that of one in a section of its own is linked to that.
const (
	tableSection = "footfall_table"

	blockHead = 44
	blockCall = 16

	tableVersion = 1

	flagPart  = 1 << 4
	flagLocal = 1 << 5
	flagWeak  = 1 << 6

	callLocal = 1 << 8 // the callee is a static function of the unit

	aliasLocal = 1 << 31
	aliasWeak  = 1 << 30

	// A key's first place is one of 256, by its hash; 16 are tried.
	moreTargets = 256 + 16
	maxMoreSite = 1<<16 - 1 - 2*moreTargets // the last whose distance fits
)

type callKind uint8

const (
	callDirect callKind = iota
	callTail
	callIndirect
	callIndirectTail
)

// names collects the strings of a unit.
type names struct {
	offset map[string]int
	list   []string
	size   int
}

func (n *names) add(s string) int {
	if at, ok := n.offset[s]; ok {
		return at
	}
	at := n.size
	n.offset[s] = at
	n.list = append(n.list, s)
	n.size += len(unquote(s)) + 1
	return at
}

// table appends counters, names, table and the function for indirect calls.
func (w *rewriter) table() {
	b := w.out
	unit := w.unit
	if unit == "" {
		unit = "?"
	}
	n := &names{offset: make(map[string]int)}
	n.add(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(unit))
	b = append(b, "\t.section\tfootfall_counts,\"aw\",@nobits\n\t.balign\t8\n"...)
	if w.misses && w.cpu.more {
		b = appendf(b, ".Lfo:\n\t.zero\t%d\n", 16*moreTargets)
	}
	b = appendf(b, ".Lfc:\n\t.zero\t%d\n", 8*w.counters)
	last := ""
	if w.kept {
		last = commonTable
		b = append(append(b, last...), ".Lft:\n"...)
	}
	for _, f := range w.done {
		head := tableHead(f)
		if head != last {
			b, last = append(b, head...), head
		}
		b = w.block(b, f, n)
	}
	b = append(b, "\t.section\tfootfall_names,\"a\",@progbits\n.Lfn:\n"...)
	for _, s := range n.list {
		b = append(append(append(b, "\t.string\t\""...), s...), "\"\n"...)
	}
	if w.o.Update == Thread {
		b = append(b, onlyExecutables...)
	}
	if w.misses {
		name := missName(w.o.Update)
		b = appendf(b, "\t.section\t.text.%s,\"axG\",@progbits,%s,comdat\n\t.weak\t%s\n\t.hidden\t%s\n\t.type\t%s, @function\n%s:\n",
			name, name, name, name, name, name)
		b = w.miss(b)
		b = appendf(b, "\t.size\t%s, .-%s\n", name, name)
		if w.o.Update == Locked {
			b = appendf(b, "\t.section\t"+locksSection+",\"aG\",@progbits,%s,comdat\n\t.balign\t4\n\t.long\t.Lfu1-., .Lfu2-.\n", name)
		}
	}
	if w.o.Update == Locked && w.cpu.threads && usesGS(w.src) {
		b = append(b, "\t.section\t"+locksSection+",\"a\",@progbits\n\t.balign\t4\n\t.long\t0\n"...)
	}
	w.out = b
}

// miss appends the code of the function for indirect calls, with rules for
// unwinders if the file's functions have such.
func (w *rewriter) miss(b []byte) []byte {
	code := w.cpu.miss[w.o.Update.outOfLine()]
	if !bytes.Contains(w.src, []byte("\t.cfi_startproc")) {
		for line := range strings.Lines(code) {
			if !strings.HasPrefix(line, "\t.cfi") {
				b = append(b, line...)
			}
		}
		return b
	}
	b = pushing(append(b, "\t.cfi_startproc\n"...), []byte(code), w.cpu.frame)
	return append(b, "\t.cfi_endproc\n"...)
}

// usesGS tells whether assembly does something with the register gs, which compilers do only if
// the source says so.
func usesGS(src []byte) bool {
	for _, s := range []string{"%gs", "wrgsbase", "arch_prctl"} {
		if bytes.Contains(src, []byte(s)) {
			return true
		}
	}
	return false
}

// onlyExecutables makes linkers refuse to make a shared library, whose counters
// threads have no copies of: this kind of reference is known in programs only.
const onlyExecutables = `	.weak	footfall_update_thread_is_for_executables
	.hidden	footfall_update_thread_is_for_executables
	.balign	4
	.long	footfall_update_thread_is_for_executables@tpoff
`

// tableHead is the directive for the section of a function's block.
func tableHead(f *function) string {
	switch {
	case f.section.group != "":
		return fmt.Sprintf("\t.section\tfootfall_table,\"aG\",@progbits,%s,comdat\n\t.balign\t4\n", f.section.group)
	case strings.HasSuffix(f.section.name, "."+f.name):
		// -ffunction-sections
		return fmt.Sprintf("\t.section\tfootfall_table,\"ao\",@progbits,.Lff%d\n\t.balign\t4\n", f.label)
	}
	return commonTable
}

// commonTable is the section of the blocks of functions that share a section.
const commonTable = "\t.section\tfootfall_table,\"a\",@progbits\n\t.balign\t4\n"

func (w *rewriter) block(b []byte, f *function, n *names) []byte {
	word := 8
	if w.cpu == i386 {
		word = 4
	}
	flags := int(w.update(f)) | word<<8 | tableVersion<<16
	if f.part {
		flags |= flagPart
	}
	if !w.global[f.name] {
		flags |= flagLocal
	}
	if w.weak[f.name] {
		flags |= flagWeak
	}
	size := "0"
	if f.end {
		size = fmt.Sprintf(".Lfe%d-.Lff%d", f.label, f.label)
	}
	more := "0,0"
	if w.misses && w.cpu.more {
		more = fmt.Sprintf(".Lfo-.,%d", moreTargets)
	}
	b = appendf(b, "\t.long\t%d,%d,.Lfc+%d-.,.Lff%d-.,.Lfn-.,%s,%d,%d,%d,%s\n", blockHead+4*len(f.aliases)+blockCall*len(f.calls),
		flags, 8*f.first, f.label, size, n.add(f.name), len(f.aliases), len(f.calls), more)
	for _, a := range f.aliases {
		name := n.add(a)
		if !w.global[a] {
			name |= aliasLocal
		}
		if w.weak[a] {
			name |= aliasWeak
		}
		b = appendf(b, "\t.long\t%d\n", name)
	}
	for _, c := range f.calls {
		kind, callee := int(c.kind), 0
		if c.local {
			kind |= callLocal
		}
		if c.callee != "" {
			callee = n.add(c.callee)
		}
		b = appendNumber(appendNumber(b, "\t.long\t", kind), ",", c.counter-f.first)
		b = appendNumber(appendNumber(b, ",.Lfs", c.label), "-.Lff", f.label)
		b = append(appendNumber(b, ",", callee), '\n')
	}
	return b
}

// unquote returns the bytes that the assembler makes of a string's text.
func unquote(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if s[i] < '0' || s[i] > '7' {
			b.WriteByte(s[i])
			continue
		}
		v := 0
		for n := 0; n < 3 && i < len(s) && s[i] >= '0' && s[i] <= '7'; n++ {
			v = v*8 + int(s[i]-'0')
			i++
		}
		i--
		b.WriteByte(byte(v))
	}
	return b.String()
}
