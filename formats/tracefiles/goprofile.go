package tracefiles

import (
	"bufio"
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"footfall/coverage"
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
	g := goReader{reader: r, modules: make(map[string]goModule)}
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
		r.problem(0, "%d sources are not found: their lines between statements count as code, and functions are not known; run footfall in the module's directory", missing)
	}
	return nil
}

type goReader struct {
	*reader
	modules map[string]goModule // by directory where the search begins
	name    string
	blocks  []block
	steps   int // lines of blocks that were gone through
	unseen  int // lines of sources that are not there
}

// A block is one of a profile.
type block struct {
	start, end position // end is behind the last character
	count      int64
}

type position struct{ line, column int32 }

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

// parseBlock reads "name:line.column,line.column statements count".
func parseBlock(text []byte) (name []byte, b block, ok bool) {
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
	b.start, b.end = position{int32(n[0]), int32(n[1])}, position{int32(n[2]), int32(n[3])}
	b.count = n[5]
	return name, b, true
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
		g.functions(at.path, source)
		g.add(cwd, name, "")
	}
	g.name, g.blocks = "", g.blocks[:0]
}

// source reads a source, nil if there is none. Its name comes from the profile:
// that may be anything.
func (g *goReader) source(name string) []byte {
	const most = 1 << 26 // bytes
	source, _, err := g.owners.ReadSource(name)
	if err != nil || len(source) > most {
		return nil
	}
	return source
}

// lines makes lines of blocks: one ran as often as the block on it that ran most.
func (g *goReader) lines(source []byte) {
	ends := make(map[position]bool, len(g.blocks))
	last := int32(0)
	for _, b := range g.blocks {
		ends[b.end] = true
		last = max(last, b.end.line)
	}
	code := codeLines(source)
	room := int32(mostLines)
	if source != nil { // a profile of another version of the source may go on
		last = min(last, int32(len(code)))
	} else {
		room = int32(min(mostLines, g.in.offset()*linesPerByte+fewLines-int64(g.unseen)))
	}
	if last > room {
		g.problem(g.in.lines, "%s has %d lines, more than a profile of this size is likely to have: those from %d on are left out", g.name, last, room+1)
		last = room
	}
	if source == nil {
		g.unseen += int(last)
	}
	slices.SortFunc(g.blocks, func(a, b block) int { return a.start.compare(b.start) })
	lines := make([]coverage.Line, max(last, 0)+1) // by number, those that have code have one
	for _, b := range g.blocks {
		from := b.start.line
		if ends[b.start] && b.end.line > from {
			from++
		}
		if g.steps += int(b.end.line - b.start.line); g.steps > mostSteps {
			break // no real profile
		}
		for n := from; n <= min(b.end.line, last); n++ {
			l := &lines[n]
			switch {
			case source != nil && !code[n-1]:
			case l.Number == 0:
				*l = coverage.Line{Number: n, Count: max(b.count, 0)}
			default:
				l.Unexecuted = l.Unexecuted || (l.Count == 0) != (b.count == 0)
				l.Count = max(l.Count, b.count)
			}
		}
	}
	for _, l := range lines {
		if l.Number > 0 {
			g.build.file.Lines = append(g.build.file.Lines, l)
		}
	}
}

const (
	mostLines = 1 << 20 // of a source of Go
	mostSteps = 1 << 28 // lines of all blocks of a profile
	// Of sources that are not there a profile says how many lines they have. It has
	// some twenty bytes for each, blocks of hundreds of lines are rare.
	linesPerByte = 4
	fewLines     = 1 << 16
)

// codeLines tells of each line whether it has more than brackets and comments.
func codeLines(source []byte) []bool {
	code := make([]bool, bytes.Count(source, []byte("\n"))+1)
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, func(token.Position, string) {}, 0)
	for {
		at, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return code
		case token.LBRACE, token.RBRACE, token.RPAREN, token.RBRACK, token.COMMA, token.SEMICOLON, token.ELSE:
		default:
			first := file.PositionFor(at, false).Line
			for n := range 1 + strings.Count(text, "\n") { // of a raw string
				if first+n <= len(code) {
					code[first+n-1] = true
				}
			}
		}
	}
}

// functions adds those of the source; one was called as often as its first
// block ran.
func (g *goReader) functions(path string, source []byte) {
	if source == nil {
		return
	}
	files := token.NewFileSet()
	tree, _ := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if tree == nil {
		return
	}
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		at := func(p token.Pos) position {
			q := files.PositionFor(p, false)
			return position{int32(q.Line), int32(q.Column)}
		}
		start, body, end := at(fn.Pos()), at(fn.Body.Pos()), at(fn.End())
		i, _ := slices.BinarySearchFunc(g.blocks, body, func(b block, p position) int { return b.start.compare(p) })
		if i == len(g.blocks) || g.blocks[i].start.compare(end) >= 0 {
			continue
		}
		g.build.function(coverage.Function{
			StartLine: start.line, StartColumn: start.column, EndLine: end.line, EndColumn: end.column - 1,
			Instances: []coverage.Instance{{Name: tree.Name.Name + "." + receiver(fn) + fn.Name.Name, Count: g.blocks[i].count}},
		})
	}
}

// receiver returns "T." for a method.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	for t := fn.Recv.List[0].Type; ; {
		switch e := t.(type) {
		case *ast.StarExpr:
			t = e.X
		case *ast.ParenExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e.Name + "."
		default:
			return ""
		}
	}
}

// A goModule is a module path and where it is.
type goModule struct{ path, dir string }

// locate finds a source by the module that its name begins with: the one above
// the profile, or the one above the root.
func (g *goReader) locate(name string) (cwd, relative string) {
	if filepath.IsAbs(name) {
		return "", name
	}
	for _, start := range []string{filepath.Dir(g.reader.name), cmp.Or(g.root, ".")} {
		m := g.module(start)
		if rest, ok := strings.CutPrefix(name, m.path+"/"); ok && m.path != "" {
			return m.dir, rest
		}
	}
	return "", path.Clean(name)
}

// module finds the go.mod of dir or of a directory above.
func (g *goReader) module(dir string) goModule {
	start, err := filepath.Abs(dir)
	if err != nil {
		return goModule{}
	}
	if m, known := g.modules[start]; known {
		return m
	}
	var m goModule
	for dir := start; m.path == ""; dir = filepath.Dir(dir) {
		m = goModule{modulePath(filepath.Join(dir, "go.mod")), dir}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	g.modules[start] = m
	return m
}

// mostModule is more than a go.mod has before that line.
const mostModule = 1 << 20

// modulePath reads the line "module PATH" of a go.mod.
func modulePath(name string) string {
	f, err := input.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(io.LimitReader(f, mostModule)); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 1 && fields[0] == "module" {
			return strings.Trim(fields[1], "\"`")
		}
	}
	return ""
}
