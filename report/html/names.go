package html

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
)

// pageNames gives each source the name of its page: the path, with "~" for "/",
// in characters that mean nothing special in a URL, in a shell within a word,
// and on any file system. Other bytes are written in hexadecimal after "=".
// Names that differ only in case, which some file systems take for one, and
// names that are too long get a hash.
type pageNames struct{ taken map[string]bool }

func newPageNames() *pageNames { return &pageNames{make(map[string]bool)} }

func (n *pageNames) name(path string) string {
	const longest = 200
	name := escapedPath(path)
	if len(name) > longest {
		name = hashOf(path) + "=" + name[len(name)-longest+20:]
	}
	if n.taken[strings.ToLower(name)] {
		name += "=" + hashOf(path)
	}
	n.taken[strings.ToLower(name)] = true
	return name
}

// escapedPath is how most pages are called. The script of the index does the same.
func escapedPath(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c == '/':
			b.WriteByte('~')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

func hashOf(s string) string {
	h := fnv.New64a()
	io.WriteString(h, s)
	return fmt.Sprintf("%016x", h.Sum64())
}
