package gcov

import (
	"compress/gzip"
	"io"
	"slices"
	"strconv"
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
	r.name, r.text = l.jsonName(l.version, input), j.b
	if l.toStdout {
		r.text = append(r.text, '\n')
	}
}

// pack writes text in the form of the gzip program.
func pack(w io.Writer, text []byte) error {
	z := gzip.NewWriter(w)
	z.OS = 3
	if _, err := z.Write(text); err != nil {
		return err
	}
	return z.Close()
}

// A jsonWriter writes gcov's JSON. The order of keys is part of it: until GCC
// 12 that of a hash table, since then that in which they are set.
type jsonWriter struct {
	*lister
	b []byte
}

// A jsonField is a key with what writes its value; nil: the key is left out.
type jsonField struct {
	key   string
	write func()
}

// object writes fields; where the order is that of the hash table, hashed
// has their indices in it.
func (j *jsonWriter) object(fields []jsonField, hashed ...int) {
	j.b = append(j.b, '{')
	start := len(j.b)
	for i := range fields {
		f := &fields[i]
		if j.version.jsonIsHashed() {
			f = &fields[hashed[i]]
		}
		if f.write == nil {
			continue
		}
		if len(j.b) > start {
			j.b = append(j.b, ", "...)
		}
		j.key(f.key)
		f.write()
	}
	j.b = append(j.b, '}')
}

func (j *jsonWriter) key(key string) {
	j.b = append(j.b, '"')
	j.b = append(j.b, key...)
	j.b = append(j.b, `": `...)
}

// array writes n elements.
func (j *jsonWriter) array(n int, write func(i int)) {
	j.b = append(j.b, '[')
	for i := range n {
		if i > 0 {
			j.b = append(j.b, ", "...)
		}
		write(i)
	}
	j.b = append(j.b, ']')
}

func (j *jsonWriter) string(s string) {
	j.b = append(j.b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			j.b = append(j.b, `\"`...)
		case '\\':
			if j.version.jsonFloats() {
				// GCC 9 has it so.
				j.b = append(j.b, `\n`...)
			} else {
				j.b = append(j.b, `\\`...)
			}
		case '\b':
			j.b = append(j.b, `\b`...)
		case '\f':
			j.b = append(j.b, `\f`...)
		case '\n':
			j.b = append(j.b, `\n`...)
		case '\r':
			j.b = append(j.b, `\r`...)
		case '\t':
			j.b = append(j.b, `\t`...)
		default:
			j.b = append(j.b, c)
		}
	}
	j.b = append(j.b, '"')
}

// number writes an integer. In GCC 9 numbers are floating, with six digits.
func (j *jsonWriter) number(n int64) {
	if j.version.jsonFloats() && (n >= 1000000 || n <= -1000000) {
		j.b = strconv.AppendFloat(j.b, float64(n), 'g', 6, 64)
		return
	}
	j.b = strconv.AppendInt(j.b, n, 10)
}

func (j *jsonWriter) bool(b bool) { j.b = strconv.AppendBool(j.b, b) }

func (j *jsonWriter) root(input string) {
	format := "1"
	if j.version.jsonFormat2() {
		format = "2"
	}
	fields := []jsonField{
		{"format_version", func() { j.string(format) }},
		{"gcc_version", func() { j.string(j.version.text()) }},
		{"current_working_directory", nil},
		{"data_file", func() { j.string(input) }},
		{"files", j.files},
	}
	if j.hasCwd {
		fields[2].write = func() { j.string(j.cwd) }
	}
	j.object(fields, 1, 4, 0, 2, 3)
}

func (j *jsonWriter) files() {
	j.b = append(j.b, '[')
	start := len(j.b)
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
			if len(j.b) > start {
				j.b = append(j.b, ", "...)
			}
			j.file(src)
			if !j.toStdout && j.version.announcesJSON() {
				j.stdout = append(j.stdout, '\n')
			}
		}
		src.lines = nil
	}
	j.b = append(j.b, ']')
}

func (j *jsonWriter) file(src *listSource) {
	introsort(src.functions, startsBefore)
	j.object([]jsonField{
		{"file", func() { j.string(src.name) }},
		{"functions", func() {
			j.array(len(src.functions), func(i int) { j.function(src.functions[i]) })
		}},
		{"lines", func() { j.fileLines(src) }},
	}, 2, 1, 0)
}

func (j *jsonWriter) function(f *listFunction) {
	number := func(n int64) func() { return func() { j.number(n) } }
	fields := []jsonField{
		{"name", func() { j.string(f.name) }},
		{"demangled_name", func() { j.string(f.plain) }},
		{"start_line", number(int64(f.start))},
		{"start_column", number(int64(f.startColumn))},
		{"end_line", number(int64(f.end))},
		{"end_column", number(int64(f.endColumn))},
		{"blocks", number(int64(uint32(f.blocks - 2)))},
		{"blocks_executed", number(int64(f.blocksExecuted))},
		{"execution_count", number(f.called)},
	}
	if j.version.jsonPaths() {
		fields = append(fields, j.pathFields(f)...)
	}
	j.object(fields, 6, 5, 2, 0, 7, 8, 1, 3, 4)
}

func (j *jsonWriter) pathFields(f *listFunction) []jsonField {
	c := f.paths
	if c == nil {
		c = new(pathCoverage)
	}
	return []jsonField{
		{"total_prime_paths", func() { j.number(int64(c.total)) }},
		{"covered_prime_paths", func() { j.number(int64(c.covered)) }},
		{"prime_path_coverage", func() { j.pathList(c) }},
	}
}

// pathList writes the paths that were not taken.
func (j *jsonWriter) pathList(c *pathCoverage) {
	j.b = append(j.b, '[')
	start := len(j.b)
	c.each(func(n int, path []int32) {
		if c.is(n) {
			return
		}
		if len(j.b) > start {
			j.b = append(j.b, ", "...)
		}
		j.object([]jsonField{
			{"id", func() { j.number(int64(n)) }},
			{"sequence", func() {
				j.array(len(path), func(i int) { j.pathBlock(c, path, i) })
			}},
		})
	})
	j.b = append(j.b, ']')
}

func (j *jsonWriter) pathBlock(c *pathCoverage, path []int32, i int) {
	locations := c.blocks[path[i]].locations
	j.object([]jsonField{
		{"block_id", func() { j.number(int64(path[i])) }},
		{"locations", func() {
			j.array(len(locations), func(k int) {
				l := &locations[k]
				j.object([]jsonField{
					{"file", func() { j.string(j.sources[l.source].name) }},
					{"line_numbers", func() {
						j.array(len(l.lines), func(n int) { j.number(int64(l.lines[n])) })
					}},
				})
			})
		}},
		{"edge_kind", func() {
			kind := ""
			if i+1 < len(path) {
				kind = c.arc(path[i], path[i+1]).jsonKind()
			}
			j.string(kind)
		}},
	})
}

// jsonKind is how the arc is called in JSON: GCC 15 and 16 look at the wrong
// flags.
func (a pathArc) jsonKind() string {
	switch {
	case a.flags&ArcFalse != 0:
		return "true"
	case a.throw:
		return "throw"
	case a.flags&ArcFallthrough != 0:
		return "fallthru"
	}
	return ""
}

// fileLines writes the lines of a source: before each line those of the group
// that begins there.
func (j *jsonWriter) fileLines(src *listSource) {
	j.b = append(j.b, '[')
	start := len(j.b)
	write := func(line *listLine, name string) {
		if !line.exists {
			return
		}
		if len(j.b) > start {
			j.b = append(j.b, ", "...)
		}
		j.line(line, name)
	}
	var open []*listFunction
	for _, n := range src.places() {
		fns := src.slots[n]
		introsort(fns, startsBefore)
		for _, f := range fns {
			if !f.group {
				if !j.version.jsonFunctionStack() {
					open = open[:0]
				}
				open = append(open, f)
			}
			for i := 0; f.own != nil && i < len(f.own.lines); i++ {
				write(&f.own.lines[i], f.name)
			}
			f.own = nil
		}
		if n >= src.size {
			continue
		}
		if len(open) == 0 {
			write(src.lines.at(n), "")
			continue
		}
		f := open[len(open)-1]
		write(src.lines.at(n), f.name)
		if f.end == n && j.version.jsonFunctionStack() {
			open = open[:len(open)-1]
		}
	}
	j.b = append(j.b, ']')
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

func (j *jsonWriter) line(line *listLine, name string) {
	fields := []jsonField{
		{"line_number", func() { j.number(int64(line.number)) }},
		{"function_name", func() { j.string(name) }},
		{"count", func() { j.number(line.count) }},
		{"unexecuted_block", func() { j.bool(line.unexecuted) }},
		{"branches", func() { j.branchList(line) }},
	}
	if name == "" {
		fields[1].write = nil
	}
	if j.version.jsonFormat2() {
		branches := fields[4]
		fields = append(fields[:4], jsonField{"block_ids", func() { j.blockIDs(line) }}, branches,
			jsonField{"calls", func() { j.callList(line) }},
			jsonField{"conditions", func() { j.conditionList(line) }})
	}
	j.object(fields, 4, 2, 0, 3, 1)
}

func (j *jsonWriter) blockIDs(line *listLine) {
	j.b = append(j.b, '[')
	start := len(j.b)
	for _, r := range line.shares {
		for k := range r.blocks() {
			if len(j.b) > start {
				j.b = append(j.b, ", "...)
			}
			j.number(int64(r.blocks()[k].id))
		}
	}
	j.b = append(j.b, ']')
}

// arcs writes an array of those arcs of a line that which chooses.
func (j *jsonWriter) arcs(line *listLine, which func(a *listArc) bool, write func(a *listArc)) {
	j.b = append(j.b, '[')
	start := len(j.b)
	for _, r := range line.shares {
		arcs := r.arcs()
		for k := range arcs {
			if a := &arcs[k]; which(a) {
				if len(j.b) > start {
					j.b = append(j.b, ", "...)
				}
				write(a)
			}
		}
	}
	j.b = append(j.b, ']')
}

func (j *jsonWriter) branchList(line *listLine) {
	branch := func(a *listArc) bool { return !a.unconditional && !a.call }
	j.arcs(line, branch, func(a *listArc) {
		fields := []jsonField{
			{"count", func() { j.number(a.count) }},
			{"throw", func() { j.bool(a.throw) }},
			{"fallthrough", func() { j.bool(a.fallthru) }},
		}
		if j.version.jsonFormat2() {
			fields = append(fields,
				jsonField{"source_block_id", func() { j.number(int64(a.src)) }},
				jsonField{"destination_block_id", func() { j.number(int64(a.dst)) }})
		}
		j.object(fields, 2, 0, 1)
	})
}

func (j *jsonWriter) callList(line *listLine) {
	call := func(a *listArc) bool { return a.call }
	j.arcs(line, call, func(a *listArc) {
		j.object([]jsonField{
			{"source_block_id", func() { j.number(int64(a.src)) }},
			{"destination_block_id", func() { j.number(int64(a.dst)) }},
			{"returned", func() { j.number(a.total - a.count) }},
		})
	})
}

func (j *jsonWriter) conditionList(line *listLine) {
	j.b = append(j.b, '[')
	start := len(j.b)
	for _, r := range line.shares {
		blocks := r.blocks()
		for k := range blocks {
			b := &blocks[k]
			if b.terms == 0 || !j.options.conditions {
				continue
			}
			if len(j.b) > start {
				j.b = append(j.b, ", "...)
			}
			j.condition(b)
		}
	}
	j.b = append(j.b, ']')
}

func (j *jsonWriter) condition(b *listBlock) {
	missing := func(mask uint64) func() {
		return func() {
			j.b = append(j.b, '[')
			start := len(j.b)
			for i := uint32(0); i < b.terms && b.covered() != 2*int(b.terms); i++ {
				if mask>>i&1 != 0 {
					continue
				}
				if len(j.b) > start {
					j.b = append(j.b, ", "...)
				}
				j.number(int64(i))
			}
			j.b = append(j.b, ']')
		}
	}
	j.object([]jsonField{
		{"count", func() { j.number(2 * int64(b.terms)) }},
		{"covered", func() { j.number(int64(b.covered())) }},
		{"not_covered_true", missing(b.truev)},
		{"not_covered_false", missing(b.falsev)},
	})
}
