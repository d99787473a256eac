package html

import (
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"footfall/output"
)

// Of a large tree the index has directories, as many as say something, and the
// browser gets the files as data: a row for each is what makes a page large.
const (
	mostFileRows      = 4000
	mostDirectoryRows = 1000

	treeFile = "index.js"
	treeHead = "// footfall report\nself.footfallTree = "
)

// large tells whether the files of the index are data.
func (s *site) large() bool { return !s.single && len(s.pages) > mostFileRows }

// writeTree writes the data of the index, or removes those of an older report.
func (s *site) writeTree(dir *output.Dir, root *directory) error {
	if s.large() {
		return dir.WriteBytes(treeFile, append(s.appendTreeData([]byte(treeHead), root, "", ""), ";\n"...))
	}
	f, err := dir.Open(treeFile)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, len(treeHead))
	if _, err := io.ReadFull(f, head); err != nil || string(head) != treeHead {
		return nil // it is something else
	}
	if err := dir.Remove(treeFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// appendTreeData appends a directory: its entry, the directories in it and the
// files in it. after is the name of what is before it in the same directory. A file
// is its entry, and with it its page, where that is not called after the path.
func (s *site) appendTreeData(buf []byte, d *directory, path, after string) []byte {
	path += d.name
	buf = append(s.appendEntry(append(buf, '['), d.sum, s.pathOf(path), path, d.name, after), ",["...)
	after = ""
	for i, sub := range d.dirs {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = s.appendTreeData(buf, sub, path, after)
		after = sub.name
	}
	buf = append(buf, "],["...)
	after = ""
	for i, p := range d.pages {
		if i > 0 {
			buf = append(buf, ",\n"...)
		}
		name := p.shown[strings.LastIndexByte(p.shown, '/')+1:]
		if escapedPath(p.shown) == p.name && utf8.ValidString(p.shown) {
			buf = s.appendEntry(buf, p.sum, p.path, p.shown, name, after)
		} else {
			buf = append(s.appendEntry(append(buf, '['), p.sum, p.path, p.shown, name, after), ',')
			buf = append(appendJSONString(buf, p.name), ']')
		}
		after = name
	}
	return append(buf, "]]"...)
}

// appendEntry appends a text with what is missed and the total of each metric, how good
// they are (see [coverage.Level], in base 4, the first one last, before them 1 if the source
// has changed since the build), how much of the name is that of the one before, and the rest of the name. Numbers have base 36, and 0 is nothing.
func (s *site) appendEntry(buf []byte, t sum, path, shown, name, after string) []byte {
	var entry []byte
	number := func(n int64) {
		if n != 0 {
			entry = strconv.AppendInt(entry, n, 36)
		}
		entry = append(entry, ' ')
	}
	levels := int64(0)
	for i, m := range s.metrics {
		r := m.total(t)
		number(int64(r.Total - r.Covered))
		number(int64(r.Total))
		levels |= int64(s.level(i, path, shown, r)) << (2 * i)
	}
	if s.stale(path) {
		levels |= 1 << (2 * len(s.metrics))
	}
	number(levels)
	shared := sharedASCII(name, after)
	number(int64(shared))
	return appendJSONString(buf, string(entry)+name[shared:])
}

// sharedASCII returns how many characters two names begin with alike, which are as
// many for the browser, as far as they are ASCII.
func sharedASCII(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] && a[n] < utf8.RuneSelf {
		n++
	}
	return n
}

// appendJSONString appends a name that is printable.
func appendJSONString(buf []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always can be
	}
	return append(buf, b...)
}

// directoryRows are the rows of the directories of a large tree, down to where
// they become too many.
func (s *site) directoryRows(root *directory) template.HTML {
	deep, all := 0, 0
	for level := root.dirs; len(level) > 0 && all+len(level) <= mostDirectoryRows; deep++ {
		all += len(level)
		var below []*directory
		for _, d := range level {
			below = append(below, d.dirs...)
		}
		level = below
	}
	return template.HTML(s.appendDirectory(nil, root.cut(deep), "", 0))
}

// cut returns a directory without what is deeper, and without files.
func (d *directory) cut(deep int) *directory {
	top := &directory{name: d.name, sum: d.sum}
	if deep > 0 {
		for _, sub := range d.dirs {
			top.dirs = append(top.dirs, sub.cut(deep-1))
		}
	}
	return top
}
