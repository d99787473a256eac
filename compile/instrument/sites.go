package instrument

import (
	"bytes"
	"fmt"
)

// TieSites returns src with each entry of __patchable_function_entries in a
// section that goes with its function, as GCC 14 and 13.5 write it. Older ones put
// the entries of all functions into one section:
//
//	.section __patchable_function_entries,"awo",@progbits,FIRST    "aw",@progbits in GCC 8 to 10
//	.align 8
//	.quad .LPFE2
//	.section .text.f,"axG",@progbits,f,comdat
//
// The linker then stops where it leaves out a COMDAT function, since an entry
// leads there, and leaves out all entries with the function FIRST. Here the first
// line becomes one of
//
//	.section __patchable_function_entries,"awGo",@progbits,.LPFE2,f,comdat
//	.section __patchable_function_entries,"awo",@progbits,.LPFE2
//
// without o and .LPFE2 where the compiler does not use o. If there is nothing to
// tie, TieSites returns src itself.
func TieSites(src []byte) []byte {
	if !bytes.Contains(src, []byte(sitesSection)) {
		return src
	}
	lines := bytes.SplitAfter(src, []byte("\n"))
	var declared []string // the last in full: later ones of GCC 8 to 10 are short
	changed := false
	for i := range lines {
		operands := sectionOperands(lines[i])
		if len(operands) == 0 || operands[0] != sitesSection {
			continue
		}
		if len(operands) >= 3 {
			declared = operands
		}
		label, group := entryAfter(lines[i+1:])
		if declared == nil || label == "" || bytes.ContainsRune([]byte(declared[1]), 'G') {
			continue
		}
		kind := declared[2]
		order, link := "", ""
		if bytes.ContainsRune([]byte(declared[1]), 'o') {
			order, link = "o", ","+label
		}
		if group != "" {
			lines[i] = fmt.Appendf(nil, "\t.section\t%s,\"awG%s\",%s%s,%s,comdat\n", sitesSection, order, kind, link, group)
		} else {
			lines[i] = fmt.Appendf(nil, "\t.section\t%s,\"aw%s\",%s%s\n", sitesSection, order, kind, link)
		}
		changed = true
	}
	if !changed {
		return src
	}
	return bytes.Join(lines, nil)
}

const sitesSection = "__patchable_function_entries"

// sectionOperands returns those of a line .section, nil of another.
func sectionOperands(line []byte) []string {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(".section"))
	if !ok || len(rest) == 0 || rest[0] != '\t' && rest[0] != ' ' {
		return nil
	}
	var operands []string
	for part := range bytes.SplitSeq(rest, []byte(",")) {
		operands = append(operands, string(bytes.TrimSpace(part)))
	}
	return operands
}

// entryAfter reads the lines after the section of an entry: its label, and the
// group of the section in which the function is, "" if that is in none. A section
// in a group is always declared in full.
func entryAfter(lines [][]byte) (label, group string) {
	for _, line := range lines[:min(len(lines), 3)] {
		words := bytes.Fields(line)
		if len(words) == 0 {
			return "", ""
		}
		switch string(words[0]) {
		case ".align", ".p2align", ".balign":
			continue
		case ".quad", ".long", ".8byte", ".4byte", ".xword", ".word", ".dword":
			if label != "" || len(words) != 2 {
				return "", ""
			}
			label = string(words[1])
			continue
		}
		operands := sectionOperands(line)
		if n := len(operands); n >= 5 && operands[n-1] == "comdat" {
			group = operands[n-2]
		}
		return label, group
	}
	return "", ""
}
