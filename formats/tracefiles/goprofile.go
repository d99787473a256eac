package tracefiles

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"

	"footfall/formats/gocover"
	"footfall/input"
)

// goProfile reads what go test -coverprofile writes (see golang.org/x/tools/cover):
//
//	mode: set, count or atomic
//	module/package/file.go:line.column,line.column statements count
//
// each a block of statements, from its first character to the one after its
// last. A block that another one leads to on the same line, as the body of an
// if does, begins with a brace only: that line is not its own.
//
// Where the source is found, lines without code are left out, and functions are
// those of the source.
func (r *reader) goProfile() error {
	g := goReader{reader: r}
	r.in.line()
	missing := 0
	for {
		line, ok := r.in.line()
		if !ok {
			break
		}
		if len(bytes.TrimSpace(line)) == 0 || bytes.HasPrefix(line, []byte("mode: ")) { // of profiles put together
			continue
		}
		name, b, ok := parseBlock(line)
		if !ok {
			r.problem(r.in.lines, "expected file:line.column,line.column statements count")
			continue
		}
		if string(name) != g.name {
			g.flush(&missing)
			g.name = r.intern(name)
		}
		g.blocks = append(g.blocks, b)
	}
	g.flush(&missing)
	if err := r.in.failed(); err != nil {
		r.cut(r.in.lines+1, "%w; what came before counts", err)
	}
	if missing > 0 {
		r.problem(0, "sources not found: %d; their lines between statements count as code, and functions are not known; run footfall in the module's directory", missing)
	}
	return nil
}

type goReader struct {
	*reader
	modules gocover.Modules
	liner   gocover.Liner
	name    string
	blocks  []gocover.Block
}

// parseBlock reads "name:line.column,line.column statements count".
func parseBlock(text []byte) (name []byte, b gocover.Block, ok bool) {
	colon := bytes.LastIndexByte(text, ':')
	if colon < 1 {
		return nil, b, false
	}
	name, text = text[:colon], text[colon+1:]
	var n [6]int64
	for i, behind := range []string{".", ",", ".", " ", " ", ""} {
		if n[i], text, ok = integer(text); !ok || !bytes.HasPrefix(text, []byte(behind)) {
			return nil, b, false
		}
		text = text[len(behind):]
	}
	const most = 1 << 24 // lines of a source
	if slices.Min(n[:]) < 0 || slices.Max(n[:4]) > most || n[0] == 0 || n[2] < n[0] || len(text) > 0 {
		return nil, b, false
	}
	return name, gocover.Block{
		Start: gocover.Position{Line: int32(n[0]), Column: int32(n[1])}, End: gocover.Position{Line: int32(n[2]), Column: int32(n[3])}, Count: n[5],
	}, true
}

// flush adds the source that was read to the sum.
func (g *goReader) flush(missing *int) {
	if g.name == "" {
		return
	}
	cwd, name := g.locate(g.name)
	at := g.resolve(cwd, name)
	if at.keep {
		source := g.source(at.path)
		if source == nil {
			*missing++
		}
		g.lines(source)
		g.functions(source)
		g.add(cwd, name, "")
	}
	g.name, g.blocks = "", g.blocks[:0]
}

// source reads a source, nil if there is none. Its name comes from the profile:
// that may be anything.
func (g *goReader) source(name string) *gocover.Source {
	const most = 1 << 26 // bytes
	text, _, err := g.owners.ReadSource(name)
	if err != nil || len(text) > most {
		return nil
	}
	return gocover.NewSource(text)
}

// lines makes lines of blocks.
func (g *goReader) lines(source *gocover.Source) {
	lines, last, beyond := g.liner.Lines(g.blocks, source, g.in.offset())
	if beyond > 0 {
		g.problem(g.in.lines, "%s has %d lines, more than a profile of this size is likely to have: those from %d on are left out", g.name, last, beyond)
	}
	g.build.file.Lines = append(g.build.file.Lines, lines...)
}

// functions adds those of the source; one was called as often as its first
// block ran.
func (g *goReader) functions(source *gocover.Source) {
	if source == nil {
		return
	}
	for _, f := range source.Functions(g.blocks) {
		g.build.function(f)
	}
}

// locate finds a source by the module that its name begins with: the one above
// the profile, or the one above the root.
func (g *goReader) locate(name string) (cwd, relative string) {
	return g.modules.Locate(name, []string{filepath.Dir(g.reader.name), cmp.Or(g.root, ".")}, input.IsFile)
}
