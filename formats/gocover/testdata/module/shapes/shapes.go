// Package shapes has areas.
package shapes

// A Square has equal sides.
type Square struct{ Side int }

// Area is that of the square.
func (s Square) Area() int {
	if s.Side < 0 {
		return 0
	}
	return s.Side * s.Side
}

// A Box has not.
type Box struct{ Width, Height int }

// Area is that of the box.
func (b *Box) Area() int {
	switch {
	case b.Width == 0:
		return 0
	case b.Height == 0:
		return 0
	}
	return b.Width * b.Height
}
