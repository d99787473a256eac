package listing

import (
	"slices"
	"strconv"
)

// intermediate prints what GCC 4.7 to 8 print with -i, for programs to read:
//
//	file:NAME
//	function:LINE,[END,]COUNT,NAME
//	lcount:LINE,COUNT[,UNEXECUTED]
//	branch:LINE,taken|nottaken|notexec
//
// The version line, the ends of functions and whether blocks of a line never
// ran are there in GCC 8.
func (p *printer) intermediate() {
	if intermediateVersion(p.version) {
		p.text("version:", p.version.Text(), "\n")
	}
	p.text("file:", p.src.name, "\n")
	introsort(p.src.functions, startsBefore)
	for _, f := range p.src.functions {
		p.text("function:", strconv.Itoa(int(f.start)), ",")
		if intermediateVersion(p.version) {
			p.text(strconv.Itoa(int(f.end)), ",")
		}
		p.out = p.appendCount(p.out, f.called)
		p.text(",", p.functionName(f), "\n")
	}
	for n := uint32(1); n < p.src.size; n++ {
		for _, f := range p.functionsAt(n) {
			if f.own != nil {
				p.intermediateLines(f.own)
			}
		}
		if l := p.src.lines.at(n); l.exists {
			p.intermediateLine(l)
		}
	}
}

func (p *printer) intermediateLines(t *lineTable) {
	for i := range t.lines {
		if t.lines[i].exists {
			p.intermediateLine(&t.lines[i])
		}
	}
}

// finishText makes the result for an operand with -i where all sources are in one file.
func (l *lister) finishText(operand string, r *results) {
	l.group()
	l.functionSummaries()
	input := l.input(operand)
	p := &printer{lister: l}
	r.sources = slices.DeleteFunc(slices.Clone(l.sources), l.relativeOnly)
	for _, src := range r.sources {
		l.total(src)
		l.stdout = l.fileSummary(l.stdout, src)
		if l.write {
			p.src = src
			p.intermediate()
			l.stdout = append(l.stdout, '\n')
		}
		src.lines = nil
	}
	r.console, r.version = l.console, l.version
	r.name, r.text = baseName(input)+".gcov", p.out
}

func (p *printer) intermediateLine(l *listLine) {
	number := strconv.Itoa(int(l.number))
	p.text("lcount:", number, ",")
	p.out = p.appendCount(p.out, l.count)
	if intermediateVersion(p.version) {
		if l.unexecuted {
			p.text(",1")
		} else {
			p.text(",0")
		}
	}
	p.text("\n")
	for _, r := range l.shares {
		arcs := r.arcs()
		for k := range arcs {
			a := &arcs[k]
			if a.call || a.unconditional {
				continue
			}
			p.text("branch:", number)
			switch {
			case a.total == 0:
				p.text(",notexec\n")
			case a.count > 0:
				p.text(",taken\n")
			default:
				p.text(",nottaken\n")
			}
		}
	}
}
