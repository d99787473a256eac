package listing

import (
	"bytes"
	"slices"
	"strconv"

	"footfall/formats/gcov"

	"github.com/klauspost/compress/gzip"
)

// finishJSON makes the results for an operand as JSON.
func (l *lister) finishJSON(operand string, r *results) {
	l.group()
	l.functionSummaries()
	input := l.input(operand)
	j := &jsonWriter{lister: l}
	j.root(input)
	r.console, r.version, r.sources = l.console, l.version, l.sources
	if l.relative {
		r.sources = slices.DeleteFunc(slices.Clone(l.sources), l.relativeOnly)
	}
	r.name, r.text = l.jsonName(l.version, input), append(j.b, '\n')
	if l.write && !l.toStdout {
		r.text = pack(j.b)
	}
}

// pack returns text in the form of the gzip program, without a name or date.
func pack(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.OS = 3
	z.Write(text)
	z.Close()
	return b.Bytes()
}

// A jsonWriter writes gcov's JSON. The order of keys is part of it: until GCC
// 12 that of a hash table, since then that in which they are set.
type jsonWriter struct {
	*lister
	b []byte
}

func (j *jsonWriter) begin(c byte) { j.b = append(j.b, c) }
func (j *jsonWriter) end(c byte)   { j.b = append(j.b, c) }

// next separates an element from the one before it.
func (j *jsonWriter) next() {
	if c := j.b[len(j.b)-1]; c != '[' && c != '{' {
		j.b = append(j.b, ", "...)
	}
}

func (j *jsonWriter) key(key string) {
	j.next()
	j.b = append(j.b, '"')
	j.b = append(j.b, key...)
	j.b = append(j.b, `": `...)
}

func (j *jsonWriter) string(key, s string) {
	j.key(key)
	j.b = append(j.b, '"')
	done := 0 // what of s is written
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		escaped := j.escape(c)
		if escaped == 0 {
			continue
		}
		j.b = append(j.b, s[done:i]...)
		j.b = append(j.b, '\\', escaped)
		done = i + 1
	}
	j.b = append(j.b, s[done:]...)
	j.b = append(j.b, '"')
}

// escape is what stands for a character behind a backslash, 0 if it stands for
// itself.
func (j *jsonWriter) escape(c byte) byte {
	switch c {
	case '"':
		return c
	case '\\':
		if jsonFloats(j.version) {
			return 'n' // GCC 9 has it so
		}
		return c
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

func (j *jsonWriter) number(key string, n int64) {
	j.key(key)
	j.integer(n)
}

// integer writes an integer. In GCC 9 numbers are floating, with six digits.
func (j *jsonWriter) integer(n int64) {
	if jsonFloats(j.version) && (n >= 1000000 || n <= -1000000) {
		j.b = strconv.AppendFloat(j.b, float64(n), 'g', 6, 64)
		return
	}
	j.b = strconv.AppendInt(j.b, n, 10)
}

func (j *jsonWriter) bool(key string, b bool) {
	j.key(key)
	j.b = strconv.AppendBool(j.b, b)
}

func (j *jsonWriter) root(input string) {
	j.begin('{')
	switch {
	case jsonIsHashed(j.version):
		j.string("gcc_version", j.version.Text())
		j.files()
		j.string("format_version", "1")
		j.directory()
		j.string("data_file", input)
	default:
		format := "1"
		if jsonFormat2(j.version) {
			format = "2"
		}
		j.string("format_version", format)
		j.string("gcc_version", j.version.Text())
		j.directory()
		j.string("data_file", input)
		j.files()
	}
	j.end('}')
}

func (j *jsonWriter) directory() {
	if j.hasCwd {
		j.string("current_working_directory", j.cwd)
	}
}

func (j *jsonWriter) files() {
	j.key("files")
	j.begin('[')
	for _, src := range j.sources {
		if j.relativeOnly(src) {
			continue
		}
		j.total(src)
		if j.debug {
			j.stderr = j.dump(j.stderr, src)
		}
		if !j.toStdout {
			j.stdout = j.fileSummary(j.stdout, src)
		}
		if j.write {
			j.file(src)
			if !j.toStdout && announcesJSON(j.version) {
				j.stdout = append(j.stdout, '\n')
			}
		}
		src.lines = nil
	}
	j.end(']')
}

func (j *jsonWriter) file(src *listSource) {
	introsort(src.functions, startsBefore)
	j.next()
	j.begin('{')
	if jsonIsHashed(j.version) {
		j.lineList(src)
		j.functionList(src)
		j.string("file", src.name)
	} else {
		j.string("file", src.name)
		j.functionList(src)
		j.lineList(src)
	}
	j.end('}')
}

func (j *jsonWriter) functionList(src *listSource) {
	j.key("functions")
	j.begin('[')
	for _, f := range src.functions {
		j.function(f)
	}
	j.end(']')
}

func (j *jsonWriter) function(f *listFunction) {
	blocks := int64(uint32(f.blocks - 2))
	j.next()
	j.begin('{')
	if jsonIsHashed(j.version) {
		j.number("blocks", blocks)
		j.number("end_column", int64(f.endColumn))
		j.number("start_line", int64(f.start))
		j.string("name", f.name)
		j.number("blocks_executed", int64(f.blocksExecuted))
		j.number("execution_count", f.called)
		j.string("demangled_name", f.plain)
		j.number("start_column", int64(f.startColumn))
		j.number("end_line", int64(f.end))
	} else {
		j.string("name", f.name)
		j.string("demangled_name", f.plain)
		j.number("start_line", int64(f.start))
		j.number("start_column", int64(f.startColumn))
		j.number("end_line", int64(f.end))
		j.number("end_column", int64(f.endColumn))
		j.number("blocks", blocks)
		j.number("blocks_executed", int64(f.blocksExecuted))
		j.number("execution_count", f.called)
		if jsonPaths(j.version) {
			j.pathFields(f.paths)
		}
	}
	j.end('}')
}

func (j *jsonWriter) pathFields(c *pathCoverage) {
	if c == nil {
		c = new(pathCoverage)
	}
	j.number("total_prime_paths", int64(c.total))
	j.number("covered_prime_paths", int64(c.covered))
	j.key("prime_path_coverage")
	j.begin('[')
	c.each(func(n int, path []int32) {
		if !c.is(n) {
			j.path(c, n, path)
		}
	})
	j.end(']')
}

// path writes a path that was not taken.
func (j *jsonWriter) path(c *pathCoverage, n int, path []int32) {
	j.next()
	j.begin('{')
	j.number("id", int64(n))
	j.key("sequence")
	j.begin('[')
	for i := range path {
		j.pathBlock(c, path, i)
	}
	j.end(']')
	j.end('}')
}

func (j *jsonWriter) pathBlock(c *pathCoverage, path []int32, i int) {
	j.next()
	j.begin('{')
	j.number("block_id", int64(path[i]))
	j.key("locations")
	j.begin('[')
	for k := range c.blocks[path[i]].locations {
		l := &c.blocks[path[i]].locations[k]
		j.next()
		j.begin('{')
		j.string("file", j.sources[l.source].name)
		j.key("line_numbers")
		j.begin('[')
		for _, line := range l.lines {
			j.next()
			j.integer(int64(line))
		}
		j.end(']')
		j.end('}')
	}
	j.end(']')
	kind := ""
	if i+1 < len(path) {
		kind = c.arc(path[i], path[i+1]).jsonKind()
	}
	j.string("edge_kind", kind)
	j.end('}')
}

// jsonKind is how the arc is called in JSON: GCC 15 and 16 look at the wrong
// flags.
func (a pathArc) jsonKind() string {
	switch {
	case a.flags&gcov.ArcFalse != 0:
		return "true"
	case a.throw:
		return "throw"
	case a.flags&gcov.ArcFallthrough != 0:
		return "fallthru"
	}
	return ""
}

// lineList writes the lines of a source: before each line those of the group
// that begins there.
func (j *jsonWriter) lineList(src *listSource) {
	j.key("lines")
	j.begin('[')
	var open []*listFunction
	for _, n := range src.places() {
		fns := src.slots[n]
		introsort(fns, startsBefore)
		for _, f := range fns {
			if !f.group {
				if !jsonFunctionStack(j.version) {
					open = open[:0]
				}
				open = append(open, f)
			}
			for i := 0; f.own != nil && i < len(f.own.lines); i++ {
				j.line(&f.own.lines[i], f.name)
			}
			f.own = nil
		}
		if n >= src.size {
			continue
		}
		if len(open) == 0 {
			j.line(src.lines.at(n), "")
			continue
		}
		f := open[len(open)-1]
		j.line(src.lines.at(n), f.name)
		if f.end == n && jsonFunctionStack(j.version) {
			open = open[:len(open)-1]
		}
	}
	j.end(']')
}

// places are the numbers of all lines at which something happens, in order:
// those that exist, and where functions begin or end.
func (src *listSource) places() []uint32 {
	var places []uint32
	for i := range src.lines.lines {
		if l := &src.lines.lines[i]; l.exists {
			places = append(places, l.number)
		}
	}
	for n, fns := range src.slots {
		if n <= src.size && n > 0 {
			places = append(places, n)
		}
		for _, f := range fns {
			if f.end < src.size && f.end > 0 {
				places = append(places, f.end)
			}
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// line writes a line, if it exists; name is its function, "" for none.
func (j *jsonWriter) line(line *listLine, name string) {
	if !line.exists {
		return
	}
	j.next()
	j.begin('{')
	if jsonIsHashed(j.version) {
		j.branchList(line)
		j.number("count", line.count)
		j.number("line_number", int64(line.number))
		j.bool("unexecuted_block", line.unexecuted)
		if name != "" {
			j.string("function_name", name)
		}
	} else {
		j.number("line_number", int64(line.number))
		if name != "" {
			j.string("function_name", name)
		}
		j.number("count", line.count)
		j.bool("unexecuted_block", line.unexecuted)
		if jsonFormat2(j.version) {
			j.blockIDs(line)
		}
		j.branchList(line)
		if jsonFormat2(j.version) {
			j.callList(line)
			j.conditionList(line)
		}
	}
	j.end('}')
}

func (j *jsonWriter) blockIDs(line *listLine) {
	j.key("block_ids")
	j.begin('[')
	for _, r := range line.shares {
		for k := range r.blocks() {
			j.next()
			j.integer(int64(r.blocks()[k].id))
		}
	}
	j.end(']')
}

func (j *jsonWriter) branchList(line *listLine) {
	j.key("branches")
	j.begin('[')
	for _, r := range line.shares {
		arcs := r.arcs()
		for k := range arcs {
			if a := &arcs[k]; !a.unconditional && !a.call {
				j.branch(a)
			}
		}
	}
	j.end(']')
}

func (j *jsonWriter) branch(a *listArc) {
	j.next()
	j.begin('{')
	if jsonIsHashed(j.version) {
		j.bool("fallthrough", a.fallthru)
		j.number("count", a.count)
		j.bool("throw", a.throw)
	} else {
		j.number("count", a.count)
		j.bool("throw", a.throw)
		j.bool("fallthrough", a.fallthru)
		if jsonFormat2(j.version) {
			j.number("source_block_id", int64(a.src))
			j.number("destination_block_id", int64(a.dst))
		}
	}
	j.end('}')
}

func (j *jsonWriter) callList(line *listLine) {
	j.key("calls")
	j.begin('[')
	for _, r := range line.shares {
		arcs := r.arcs()
		for k := range arcs {
			a := &arcs[k]
			if !a.call {
				continue
			}
			j.next()
			j.begin('{')
			j.number("source_block_id", int64(a.src))
			j.number("destination_block_id", int64(a.dst))
			j.number("returned", a.total-a.count)
			j.end('}')
		}
	}
	j.end(']')
}

func (j *jsonWriter) conditionList(line *listLine) {
	j.key("conditions")
	j.begin('[')
	for _, r := range line.shares {
		blocks := r.blocks()
		for k := range blocks {
			if b := &blocks[k]; b.terms > 0 && j.options.conditions {
				j.condition(b)
			}
		}
	}
	j.end(']')
}

func (j *jsonWriter) condition(b *listBlock) {
	j.next()
	j.begin('{')
	j.number("count", 2*int64(b.terms))
	j.number("covered", int64(b.covered()))
	j.missing("not_covered_true", b, b.truev)
	j.missing("not_covered_false", b, b.falsev)
	j.end('}')
}

// missing writes the terms of a condition that the mask lacks.
func (j *jsonWriter) missing(key string, b *listBlock, mask uint64) {
	j.key(key)
	j.begin('[')
	for i := uint32(0); i < b.terms && b.covered() != 2*int(b.terms); i++ {
		if mask>>i&1 == 0 {
			j.next()
			j.integer(int64(i))
		}
	}
	j.end(']')
}
