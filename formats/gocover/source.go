package gocover

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/formats/cursor"
)

// This file makes lines and functions of blocks. A block that another one leads to on the same line, as the body of an
// if does, begins with a brace only: that line is not its own. Where the source is found, lines without code are left
// out, and functions are those of the source; which blocks are whose their places tell.

// A Position is a place in a source.
type Position struct{ Line, Column int32 }

// Compare is negative if p comes before q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// A Block is a block of statements that run one after the other. End is behind its last character.
type Block struct {
	Start, End Position
	Count      int64
}

// A Source is the text of a file, read once for both lines and functions.
type Source struct {
	code    []bool // of each line: it has more than brackets and comments
	Package string // its name
	bodies  []body // by ascending start
}

// A body is that of a function, declared or literal.
type body struct {
	name             string
	start, open, end Position // of the function, of its first brace; behind its last
}

// NewSource reads a source; text without sense has no functions.
func NewSource(text []byte) *Source {
	s := &Source{code: codeLines(text)}
	files := token.NewFileSet()
	tree, _ := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if tree == nil || tree.Name == nil {
		return s
	}
	s.Package = tree.Name.Name
	at := func(p token.Pos) Position {
		q := files.PositionFor(p, false)
		return Position{int32(q.Line), int32(q.Column)}
	}
	w := bodyWalker{at: at, pkg: s.Package}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				name := s.Package + "." + receiver(d) + d.Name.Name
				w.add(name, d, d.Body)
				w.literals(name+".func", d.Body)
			}
		default:
			w.literals("", d)
		}
	}
	slices.SortFunc(w.bodies, func(a, b body) int { return a.open.Compare(b.open) })
	s.bodies = w.bodies
	return s
}

type bodyWalker struct {
	at     func(token.Pos) Position
	pkg    string
	bodies []body
}

func (w *bodyWalker) add(name string, n ast.Node, b *ast.BlockStmt) {
	w.bodies = append(w.bodies, body{name, w.at(n.Pos()), w.at(b.Pos()), w.at(n.End())})
}

// literals adds the function literals in a node. They are named as the compiler names them, which does so by their order:
// f.func1 is in f, f.func1.2 in that. prefix is what comes before the number; those outside of functions, for which it
// is "", are named by their place as meta-data name them, func.L28.C12.
func (w *bodyWalker) literals(prefix string, in ast.Node) {
	n := 0
	ast.Inspect(in, func(node ast.Node) bool {
		lit, ok := node.(*ast.FuncLit)
		if !ok {
			return true
		}
		n++
		name := prefix + strconv.Itoa(n)
		if prefix == "" {
			name = fmt.Sprintf("%s.func.L%d.C%d", w.pkg, w.at(lit.Pos()).Line, w.at(lit.Pos()).Column)
		}
		w.add(name, lit, lit.Body)
		w.literals(name+".", lit.Body)
		return false
	})
}

// receiver returns "T." or "(*T)." for a method.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	pointer := false
	for t := fn.Recv.List[0].Type; ; {
		switch e := t.(type) {
		case *ast.StarExpr:
			t, pointer = e.X, true
		case *ast.ParenExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			if pointer {
				return "(*" + e.Name + ")."
			}
			return e.Name + "."
		default:
			return ""
		}
	}
}

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

const (
	mostLines = 1 << 20 // of a source of Go
	mostSteps = 1 << 28 // lines of all blocks of a profile
	// Of sources that are not there a profile says how many lines they have. It has
	// some twenty bytes for each, blocks of hundreds of lines are rare.
	linesPerByte = 4
	fewLines     = 1 << 16
)

// A Liner makes lines of blocks, of all sources of a profile or program. What it makes has a limit: a few bytes may tell
// of many lines.
type Liner struct {
	steps  int
	unseen int64 // lines of sources that are not there
}

// Lines returns the lines of a source, nil if that is not there: one ran as often as the block on it that ran most. The
// blocks are sorted. read is how many bytes of the profile have been read; beyond, if not 0, is the first line that is
// left out as that is not likely to have so many.
func (l *Liner) Lines(blocks []Block, source *Source, read int64) (lines []coverage.Line, last, beyond int32) {
	ends := make(map[Position]bool, len(blocks))
	for _, b := range blocks {
		ends[b.End] = true
		last = max(last, b.End.Line)
	}
	room := int32(mostLines)
	if source != nil { // a profile of another version of the source may go on
		last = min(last, int32(len(source.code)))
	} else {
		room = int32(min(mostLines, read*linesPerByte+fewLines-l.unseen))
	}
	end := last
	if last > room {
		beyond, end = room+1, room
	}
	if source == nil {
		l.unseen += int64(end)
	}
	slices.SortFunc(blocks, func(a, b Block) int { return a.Start.Compare(b.Start) })
	all := make([]coverage.Line, max(end, 0)+1) // by number, those that have code have one
	for _, b := range blocks {
		from := b.Start.Line
		if ends[b.Start] && b.End.Line > from {
			from++
		}
		if l.steps += int(b.End.Line - b.Start.Line); l.steps > mostSteps {
			break // no real profile
		}
		for n := from; n <= min(b.End.Line, end); n++ {
			line := &all[n]
			switch {
			case source != nil && !source.code[n-1]:
			case line.Number == 0:
				*line = coverage.Line{Number: n, Count: max(b.Count, 0)}
			default:
				line.Unexecuted = line.Unexecuted || (line.Count == 0) != (b.Count == 0)
				line.Count = max(line.Count, b.Count)
			}
		}
	}
	for _, line := range all {
		if line.Number > 0 {
			lines = append(lines, line)
		}
	}
	return lines, last, beyond
}

// Functions are those of a source in which blocks begin; one was called as often as its first block ran. The blocks are
// sorted. Those of a literal are not those of the function that it is in.
func (s *Source) Functions(blocks []Block) []coverage.Function {
	own := make([]struct {
		first    int64
		all, ran int
	}, len(s.bodies))
	var open []int // bodies that a block is in, the innermost last
	next := 0
	for _, b := range blocks {
		for next < len(s.bodies) && s.bodies[next].open.Compare(b.Start) <= 0 {
			open = append(open, next)
			next++
		}
		for len(open) > 0 && s.bodies[open[len(open)-1]].end.Compare(b.Start) <= 0 {
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			continue
		}
		o := &own[open[len(open)-1]]
		if o.all == 0 {
			o.first = b.Count
		}
		o.all++
		if b.Count > 0 {
			o.ran++
		}
	}
	var list []coverage.Function
	for i, o := range own {
		if o.all == 0 {
			continue
		}
		f := &s.bodies[i]
		list = append(list, coverage.Function{
			StartLine: f.start.Line, StartColumn: f.start.Column, EndLine: f.end.Line, EndColumn: f.end.Column - 1,
			Name: f.name, Count: o.first, Blocks: int32(o.all), BlocksExecuted: int32(o.ran),
			Instances: []coverage.Instance{{Name: f.name, Count: o.first, Blocks: int32(o.all), BlocksExecuted: int32(o.ran)}},
		})
	}
	return list
}

// Has tells whether a function, or a literal, begins with a brace or a statement at a place: those of another version of
// the source do not.
func (s *Source) Has(at Position) bool {
	i, found := slices.BinarySearchFunc(s.bodies, at, func(b body, p Position) int { return b.open.Compare(p) })
	// Go 1.26 begins blocks at the first statement in place of the brace, if that is on another line.
	return found || i > 0 && at.Compare(s.bodies[i-1].end) < 0
}

// Encode returns what of a source is needed to make lines and functions of blocks, and no text of it: which lines have code, and
// where its functions are. All numbers are ULEB128, texts have their length before them.
func (s *Source) Encode() []byte {
	text := func(b []byte, t string) []byte { return append(binary.AppendUvarint(b, uint64(len(t))), t...) }
	b := binary.AppendUvarint(text(nil, s.Package), uint64(len(s.code)))
	for i := 0; i < len(s.code); i += 8 {
		bits := byte(0)
		for k, is := range s.code[i:min(i+8, len(s.code))] {
			if is {
				bits |= 1 << k
			}
		}
		b = append(b, bits)
	}
	b = binary.AppendUvarint(b, uint64(len(s.bodies)))
	for i := range s.bodies {
		f := &s.bodies[i]
		b = text(b, f.name)
		for _, p := range []Position{f.start, f.open, f.end} {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.Line)), uint64(p.Column))
		}
	}
	return b
}

// DecodeSource reads what Encode has made. Errors are FormatErrors.
func DecodeSource(b []byte) (*Source, error) {
	r := &reader{cursor.Reader{B: b}}
	s := &Source{Package: string(r.Bytes(r.Uleb()))}
	lines := r.Uleb()
	if r.Fits("lines", lines/8, 1) && lines <= mostLines {
		s.code = make([]bool, lines)
		for i, bits := range r.Bytes((lines + 7) / 8) {
			for k := range s.code[8*i : min(8*i+8, len(s.code))] {
				s.code[8*i+k] = bits>>k&1 != 0
			}
		}
	} else if r.Err == nil {
		r.Fail("%d lines, where at most %d are read", lines, mostLines)
	}
	place := func() Position {
		p := Position{int32(r.Uleb32("a line")), int32(r.Uleb32("a column"))}
		if p.Line < 0 || p.Column < 0 {
			r.Fail("a place in a source was expected")
		}
		return p
	}
	for range r.Count("functions", 7) {
		s.bodies = append(s.bodies, body{string(r.Bytes(r.Uleb())), place(), place(), place()})
	}
	if r.Err == nil && r.Left() > 0 {
		r.Fail("%d more bytes than there should be", r.Left())
	}
	if r.Err == nil && !slices.IsSortedFunc(s.bodies, func(a, b body) int { return a.open.Compare(b.open) }) {
		r.Fail("functions that are not in the order of their places")
	}
	return s, r.Err
}
