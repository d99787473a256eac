//go:build linux

package mount

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"footfall/live"
)

// A node is an entry of a process's directory: exactly one of children, link,
// units, profile and special is set.
type node struct {
	ino      uint64
	children map[string]*node    // a directory's
	scratch  map[string]*scratch // what others have written into a directory
	link     string              // what a symbolic link leads to
	units    []*live.Unit        // what a file of counters is the sum of
	profile  *profiled           // what a file of source-based counters is of,
	meta     bool                // or one of the meta-data of Go
	special  special

	state   *state // of a file of counters; nil: nobody has looked
	version int    // of the process's counts, from which it was made
	looks   looks
}

// Looks tell whether a snapshot still serves those who look up a file, or has
// served somebody who may have done something since and looks again.
type looks struct {
	at     time.Time // which snapshot served last
	by     uint32    // the thread that it served
	when   time.Time
	opened bool // and opened the file
}

// used tells whether a thread needs a newer snapshot than that of the given time,
// which took so long. One that looks twice before it opens a file, as the kernel does
// when another state comes in place of one that it knows, does not.
func (l *looks) used(at time.Time, took time.Duration, by uint32) bool {
	return l.at.Equal(at) && (l.opened || l.by != by || time.Since(l.when) > took)
}

func (l *looks) add(at time.Time, by uint32) { *l = looks{at: at, by: by, when: time.Now()} }

// A special is a file that is not about one object.
type special int

const (
	resetFile special = iota + 1
	traceFile
)

// names are the special files of a directory. all.gcda is what the kernel's
// first patch for coverage called it; it is not listed, since lcov would take
// it for one of an object.
var specials = map[string]special{"reset": resetFile, "all.gcda": resetFile, "all.info": traceFile}

const unlisted = "all.gcda"

const (
	maxName   = 255 // bytes of a component, the limit of most file systems
	maxCopies = 100 // directories for what has a name that is taken
)

// components returns the path of a file that a program calls name, below its
// directory: absolute or not, .. never leads out.
func components(name string) []string {
	var out []string
	for part := range strings.SplitSeq(path.Clean("/"+name), "/") {
		if part == "" {
			continue
		}
		if len(part) > maxName {
			// Distinct names stay distinct, and keep the end, which tells the kind.
			sum := fmt.Sprintf("%x", sha256.Sum256([]byte(part)))
			part = part[:150] + "~" + sum[:16] + "~" + part[len(part)-50:]
		}
		out = append(out, part)
	}
	return out
}

// withCopy puts a path into the n-th directory of copies, the first being
// none.
func withCopy(parts []string, n int) []string {
	if n == 1 {
		return parts
	}
	return append([]string{strconv.Itoa(n)}, parts...)
}

// at returns the node of a path, made where there is none. It returns nil where
// something that is no directory is in the way.
func (n *node) at(parts []string, nextIno func() uint64) *node {
	for i, part := range parts {
		if n.children == nil {
			if i == 0 || !n.isNew() {
				return nil
			}
			n.children = make(map[string]*node)
		}
		child := n.children[part]
		if child == nil {
			child = &node{ino: nextIno()}
			n.children[part] = child
		}
		n = child
	}
	return n
}

// isNew tells whether a node has been made by at and is nothing so far.
func (n *node) isNew() bool {
	return n.children == nil && n.link == "" && n.units == nil && n.profile == nil && n.special == 0
}

// newDirectory returns the tree of a process without objects.
func newDirectory(nextIno func() uint64) *node {
	root := &node{ino: nextIno(), children: make(map[string]*node)}
	for name, s := range specials {
		root.children[name] = &node{ino: nextIno(), special: s}
	}
	return root
}
