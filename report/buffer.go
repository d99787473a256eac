package report

import (
	"io"
	"strconv"

	"footfall/coverage"
)

// A buffer is a piece of an output in the making. The outputs of large
// programs have millions of lines: they are appended to a buffer and written
// file by file.
type buffer struct{ buf []byte }

func (b *buffer) raw(s string) { b.buf = append(b.buf, s...) }

// number appends n, after what stands before it.
func (b *buffer) number(before string, n int64) {
	b.buf = appendNumber(append(b.buf, before...), n)
}

// appendNumber is strconv.AppendInt, and faster with what is in reports most: lines, and
// small counts.
func appendNumber(b []byte, n int64) []byte {
	if n < 0 || n >= 10000 {
		return strconv.AppendInt(b, n, 10)
	}
	x := uint32(n)
	switch {
	case x < 10:
		return append(b, byte('0'+x))
	case x < 100:
		return append(b, byte('0'+x/10), byte('0'+x%10))
	case x < 1000:
		return append(b, byte('0'+x/100), byte('0'+x/10%10), byte('0'+x%10))
	}
	return append(b, byte('0'+x/1000), byte('0'+x/100%10), byte('0'+x/10%10), byte('0'+x%10))
}

// flush writes what there is.
func (b *buffer) flush(w io.Writer) error {
	_, err := w.Write(b.buf)
	b.buf = b.buf[:0]
	return err
}

// fraction appends a ratio as a number from 0 to 1 of up to four digits,
// rounded down: 1 is all of something, and nothing to cover is 0.
func (b *buffer) fraction(r coverage.Ratio) {
	const one = 10000
	n := 0
	if r.Total > 0 {
		n = int(int64(r.Covered) * one / int64(r.Total))
	}
	switch {
	case n == one:
		b.raw("1")
	case n == 0 && r.Covered == 0:
		b.raw("0")
	default:
		b.raw("0.")
		digits := strconv.AppendInt(nil, int64(one+max(n, 1)), 10)[1:] // with leading zeros
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
		b.buf = append(b.buf, digits...)
	}
}

// wholePercent is a percentage without decimals, rounded down.
func wholePercent(r coverage.Ratio) int64 {
	return int64(r.Covered) * 100 / int64(max(r.Total, 1))
}
