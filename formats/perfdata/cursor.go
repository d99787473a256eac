package perfdata

import "encoding/binary"

// A cursor reads values one after the other. When it is at the end it is bad, and
// all further values are 0.
type cursor struct {
	b     []byte
	order binary.ByteOrder
	bad   bool
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return c.order.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return c.order.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return c.order.Uint64(b)
	}
	return 0
}

// text reads a length of 32 bits and a text that ends with a 0.
func (c *cursor) text() string { return cString(c.take(uint64(c.u32()))) }
