package collect

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"footfall/output"
)

// A Grouped writes messages about processes to another writer when it is flushed: those that say the same of
// several are one line. It is for one goroutine.
type Grouped struct {
	to    io.Writer
	lines []string
	rest  string // of a line that has not ended
}

// Group returns one that writes to w.
func Group(w io.Writer) *Grouped { return &Grouped{to: w} }

func (g *Grouped) Write(b []byte) (int, error) {
	g.rest += string(b)
	for {
		line, rest, ended := strings.Cut(g.rest, "\n")
		if !ended {
			return len(b), nil
		}
		g.lines, g.rest = append(g.lines, line), rest
	}
}

// aboutProcess are the forms of messages about a process.
var aboutProcess = sync.OnceValue(func() []form {
	return []form{
		{regexp.MustCompile(`^(footfall: (?:left out: )?)(\S.*?) \(pid (\d+)\): (.*)$`), 2, 3},
		{regexp.MustCompile(`^(footfall: (?:left out: )?)process (\d+) \((.*?)\): (.*)$`), 3, 2},
	}
})

type form struct {
	*regexp.Regexp
	name, pid int // which parts these are, of what is before the last one
}

// A message is what is said of processes of a name.
type message struct{ before, name, text string }

func (m message) of(pids []string) string {
	const few = 3
	which := strings.Join(pids, ", ")
	if len(pids) > few {
		which = fmt.Sprintf("%s and %d more", strings.Join(pids[:few-1], ", "), len(pids)-few+1)
	}
	return fmt.Sprintf("%s%s (%s: %s): %s", m.before, m.name, output.Count(len(pids), "process", "processes"), which, m.text)
}

// Flush writes what was said since the last time, in the order of the first of each kind.
func (g *Grouped) Flush() {
	pids := make(map[message][]string)
	about := func(line string) (m message, pid string) {
		for _, a := range aboutProcess() {
			if part := a.FindStringSubmatch(line); part != nil {
				return message{part[1], part[a.name], part[4]}, part[a.pid]
			}
		}
		return m, ""
	}
	for _, line := range g.lines {
		if m, pid := about(line); pid != "" {
			pids[m] = append(pids[m], pid)
		}
	}
	for _, line := range g.lines {
		m, pid := about(line)
		switch of := pids[m]; {
		case pid == "" || len(of) == 1:
		case of[0] != pid:
			continue
		default:
			line = m.of(of)
		}
		fmt.Fprintln(g.to, line)
	}
	g.lines = nil
}
