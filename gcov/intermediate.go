package gcov

import "strconv"

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
	if p.version.intermediateVersion() {
		p.text("version:", p.version.text(), "\n")
	}
	p.text("file:", p.src.name, "\n")
	introsort(p.src.functions, startsBefore)
	for _, f := range p.src.functions {
		p.text("function:", strconv.Itoa(int(f.start)), ",")
		if p.version.intermediateVersion() {
			p.text(strconv.Itoa(int(f.end)), ",")
		}
		p.out = p.appendCount(p.out, f.called)
		p.text(",", p.functionName(f), "\n")
	}
	for i := range p.src.lines.lines {
		if l := &p.src.lines.lines[i]; l.exists && l.number > 0 {
			p.intermediateLine(l)
		}
	}
}

func (p *printer) intermediateLine(l *listLine) {
	number := strconv.Itoa(int(l.number))
	p.text("lcount:", number, ",")
	p.out = p.appendCount(p.out, l.count)
	if p.version.intermediateVersion() {
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
