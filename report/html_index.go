package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
func (s *site) writeTree(dir string, root *directory) error {
	name := filepath.Join(dir, treeFile)
	if s.large() {
		return output.WriteBytes(name, append(s.appendTreeData([]byte(treeHead), root), ";\n"...))
	}
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	b, err := os.ReadFile(name)
	if err != nil || !strings.HasPrefix(string(b), treeHead) {
		return nil // it is something else
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// appendTreeData appends a directory: its name, the directories in it, the files
// in it and its ratios. A file is its name and ratios, and its page, where that is
// not called as the path is.
func (s *site) appendTreeData(buf []byte, d *directory) []byte {
	buf = append(appendJSONString(append(buf, '['), d.name), ",["...)
	for i, sub := range d.dirs {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = s.appendTreeData(buf, sub)
	}
	buf = append(buf, "],["...)
	for i, p := range d.pages {
		if i > 0 {
			buf = append(buf, ",\n"...)
		}
		buf = appendJSONString(append(buf, '['), p.shown[strings.LastIndexByte(p.shown, '/')+1:])
		buf = s.appendRatios(append(buf, ','), p.sum)
		if name := strings.ReplaceAll(p.shown, "/", "~"); name != p.name {
			buf = appendJSONString(append(buf, ','), p.name)
		}
		buf = append(buf, ']')
	}
	return append(s.appendRatios(append(buf, "],"...), d.sum), ']')
}

func (s *site) appendRatios(buf []byte, t sum) []byte {
	buf = append(buf, '[')
	for i, m := range s.metrics {
		if i > 0 {
			buf = append(buf, ',')
		}
		r := m.total(t)
		buf = fmt.Appendf(buf, "%d,%d", r.Covered, r.Total)
	}
	return append(buf, ']')
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
	return template.HTML(s.appendDirectory(nil, root.cut(deep), 0))
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
