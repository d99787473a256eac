//go:build linux

package ftrace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A Symbol is a function of the kernel.
type Symbol struct {
	Addr   uint64
	Name   string
	Module string // "": the kernel itself
}

// Symbols are functions by ascending address.
type Symbols []Symbol

// ReadSymbols reads the kernel's list of symbols.
func ReadSymbols() (Symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	defer f.Close()
	s, err := parseSymbols(f)
	switch {
	case err == nil && len(s) == 0 && os.Geteuid() != 0:
		err = errors.New("tracing it needs root")
	case err == nil && len(s) == 0:
		err = errors.New("/proc/kallsyms has no addresses: echo 1 > /proc/sys/kernel/kptr_restrict")
	}
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	return s, nil
}

// parseSymbols reads lines such as
//
//	ffffffff81000000 T _text
//	ffffffffc0200000 t hit	[hits]
func parseSymbols(r io.Reader) (Symbols, error) {
	var s Symbols
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 3 || !strings.ContainsAny(words[1], "tTwW") {
			continue
		}
		addr, err := strconv.ParseUint(words[0], 16, 64)
		if err != nil || addr == 0 {
			continue
		}
		symbol := Symbol{Addr: addr, Name: words[2]}
		if len(words) > 3 {
			symbol.Module = strings.Trim(words[3], "[]")
		}
		s = append(s, symbol)
	}
	slices.SortStableFunc(s, func(a, b Symbol) int {
		switch {
		case a.Addr < b.Addr:
			return -1
		case a.Addr > b.Addr:
			return 1
		}
		return 0
	})
	return s, lines.Err()
}

// At returns the function that has code at an address, nil if none is known.
func (s Symbols) At(addr uint64) *Symbol {
	i := sort.Search(len(s), func(i int) bool { return s[i].Addr > addr })
	if i == 0 {
		return nil
	}
	for i > 1 && s[i-2].Addr == s[i-1].Addr {
		i-- // of several names the first
	}
	return &s[i-1]
}
