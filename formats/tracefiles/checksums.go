package tracefiles

import (
	"crypto/md5"
	"encoding/base64"
)

// A LineChecksum is what a tracefile says of the text of a line, without its end: MD5, as
// `geninfo --checksum` has it.
type LineChecksum struct {
	Line int32
	Sum  [md5.Size]byte
}

// mostChecksums is how many of a source are looked at.
const mostChecksums = 1 << 14

// checksum takes the last field of DA, with the comma before it.
func (b *builder) checksum(line int32, field []byte) {
	if len(field) < 2 || len(b.checksums) == mostChecksums {
		return
	}
	c := LineChecksum{Line: line}
	var sum [md5.Size + 2]byte
	field = field[1:]
	for len(field) > 0 && (field[len(field)-1] == '=' || field[len(field)-1] == '\r') {
		field = field[:len(field)-1]
	}
	if len(field) != base64.RawStdEncoding.EncodedLen(md5.Size) {
		return // another kind of version, which is not for us
	}
	if n, err := base64.RawStdEncoding.Decode(sum[:], field); err == nil && n == md5.Size {
		copy(c.Sum[:], sum[:])
		b.checksums = append(b.checksums, c)
	}
}
