package profile

import (
	"io"
	"path"
)

// A Report is a profile, and how to show it.
type Report struct {
	Profile *Profile
	Graph   *Graph
	// Match tells which functions are shown by outputs that show single
	// functions; nil: the most costly.
	Match func(*Node) bool
	// Open opens a source file by the name that the compiler recorded.
	Open func(name string) (io.ReadCloser, error)
	// Shown is the name to show for a source.
	Shown func(name string) string
	// Width is the number of columns of text on a terminal, 0 for any.
	Width int
	// Color tells to colour text.
	Color bool
}

func baseName(file string) string { return path.Base(file) }
