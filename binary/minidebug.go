package binary

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// MiniDebug opens the symbols that distributions such as Fedora leave in a stripped file, in section
// .gnu_debugdata: an ELF file that has functions which the dynamic linker does not know, compressed
// by xz. It returns ErrNoSymbols if there are none.
// (sourceware.org/gdb/current/onlinedocs/gdb.html/MiniDebugInfo.html)
func (f *File) MiniDebug() (*File, error) {
	packed, err := f.Contents(".gnu_debugdata")
	if err != nil || len(packed) == 0 {
		return nil, errors.Join(ErrNoSymbols, err)
	}
	b, err := unpackXZ(packed)
	if err != nil {
		return nil, fmt.Errorf(".gnu_debugdata: %w", err)
	}
	return Open(bytes.NewReader(b))
}

const (
	mostMiniDebug  = 256 << 20 // bytes of symbols
	mostDictionary = 64 << 20  // that xz -9 has
)

// unpackXZ returns what is in the first block of an xz file, which has all unless it was made in
// parts. That is found here, and not by a package, as a block says how much memory is to be taken for it.
//
//	stream header   fd "7zXZ" 00, flags u16, CRC u32
//	block header    size/4-1 u8, flags u8 (0x40, 0x80: there are sizes; low 2 bits: filters-1), [sizes], filter 21 01, dictionary u8, ...
//	LZMA2 data
//
// (xz.tukaani.org/format/xz-file-format.txt)
func unpackXZ(b []byte) ([]byte, error) {
	const streamHeader = 12
	if !bytes.HasPrefix(b, []byte("\xfd7zXZ\x00")) || len(b) < streamHeader+8 {
		return nil, errors.New("offset 0: not an xz file")
	}
	block := b[streamHeader:]
	size := (int(block[0]) + 1) * 4
	if block[0] == 0 || size > len(block) || block[1]&0x3f != 0 {
		return nil, errors.New("offset 12: a block that is empty, cut, or has other filters than LZMA2")
	}
	header := block[2:size]
	for _, flag := range []byte{0x40, 0x80} {
		if block[1]&flag == 0 {
			continue
		}
		n := 0
		for n < len(header) && header[n]&0x80 != 0 {
			n++
		}
		header = header[min(n+1, len(header)):]
	}
	if len(header) < 3 || header[0] != 0x21 || header[1] != 1 {
		return nil, errors.New("offset 14: the filter is not LZMA2")
	}
	dictionary, err := lzma.DecodeDictCap(header[2])
	if err != nil || dictionary > mostDictionary {
		return nil, fmt.Errorf("offset 14: a dictionary of %d bytes, at most %d are read", dictionary, mostDictionary)
	}
	r, err := lzma.Reader2Config{DictCap: max(int(dictionary), lzma.MinDictCap)}.NewReader2(bytes.NewReader(block[size:]))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, mostMiniDebug+1))
	if err == nil && len(out) > mostMiniDebug {
		err = fmt.Errorf("more than %d bytes", mostMiniDebug)
	}
	return out, err
}
