//go:build linux

package patch

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// CallersHeader is a header for C, by which functions count their callers
// themselves.
//
//go:embed trampoline/footfall_callers.h
var CallersHeader string

// A CallersTable is what one FOOTFALL_CALLERS in a program has counted.
type CallersTable struct {
	Function string
	Image    *target.Image
	Depth    int
	Lost     uint64        // calls that found no room
	Chains   []trace.Chain // in no order; Addresses are fewer where a chain ends early
}

const (
	callersSection = "footfall_callers"
	callersMagic   = "FFCALLS1"
	callersHead    = 40      // struct footfall_callers_head
	maxCallers     = 1 << 28 // bytes of tables
)

// CallersTables reads the tables of an image, of which there may be none.
func CallersTables(p *process.Process, i *target.Image) ([]*CallersTable, error) {
	addr, size, ok := i.File.Section(callersSection)
	if !ok {
		return nil, nil
	}
	if size > maxCallers {
		return nil, fmt.Errorf("%s: section %s has %d bytes", i.Path, callersSection, size)
	}
	b := make([]byte, size)
	if _, err := p.ReadAt(b, int64(addr+i.Bias)); err != nil {
		return nil, fmt.Errorf("%s: section %s: %w", i.Path, callersSection, err)
	}
	tables, err := readCallers(b)
	if err != nil {
		return nil, fmt.Errorf("%s: section %s: %w", i.Path, callersSection, err)
	}
	var all []*CallersTable
	for _, t := range tables {
		t.table.Image = i
		if t.table.Function, err = text(p, t.function); err != nil {
			return nil, fmt.Errorf("%s: section %s: name of a function: %w", i.Path, callersSection, err)
		}
		all = append(all, t.table)
	}
	return all, nil
}

// text reads a string of the process.
func text(p *process.Process, addr uint64) (string, error) {
	b := make([]byte, 256)
	n, err := p.ReadAt(b, int64(addr))
	if end := strings.IndexByte(string(b[:n]), 0); end >= 0 {
		return string(b[:end]), nil
	}
	return "", errors.Join(errors.New("it does not end"), err)
}

// A namedTable is one whose name is at an address.
type namedTable struct {
	table    *CallersTable
	function uint64
}

// readCallers reads a section: tables one after another, with zeros between.
func readCallers(b []byte) ([]namedTable, error) {
	var all []namedTable
	for at := 0; at+callersHead <= len(b); {
		h := b[at:]
		if string(h[:8]) != callersMagic {
			at += 8
			continue
		}
		size, depth := uint64(binary.LittleEndian.Uint32(h[8:])), uint64(binary.LittleEndian.Uint32(h[12:]))
		slots, slotSize := uint64(binary.LittleEndian.Uint32(h[16:])), uint64(binary.LittleEndian.Uint32(h[20:]))
		if depth == 0 || depth > 1000 || slotSize < 16+8*depth || callersHead+slots*slotSize > size || size > uint64(len(h)) {
			return nil, fmt.Errorf("at %#x: a table of %d bytes with %d slots of %d for %d callers", at, size, slots, slotSize, depth)
		}
		t := &CallersTable{Depth: int(depth), Lost: binary.LittleEndian.Uint64(h[24:])}
		for i := range slots {
			slot := h[callersHead+i*slotSize:]
			if count := binary.LittleEndian.Uint64(slot); count > 0 {
				t.Chains = append(t.Chains, chainOf(slot[16:16+8*depth], count))
			}
		}
		all = append(all, namedTable{t, binary.LittleEndian.Uint64(h[32:])})
		at += int(size)
	}
	return all, nil
}

// chainOf reads the addresses of a chain up to the first 0.
func chainOf(b []byte, count uint64) trace.Chain {
	c := trace.Chain{Count: count}
	for ; len(b) >= 8; b = b[8:] {
		a := binary.LittleEndian.Uint64(b)
		if a == 0 {
			break
		}
		c.Addresses = append(c.Addresses, a)
	}
	return c
}
