//go:build linux

package collect

import (
	"debug/dwarf"
	"debug/elf"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"footfall/process/processtest"
)

// TestRanLinesCallgrind compares the blocks that ran, address by address, with the instructions that callgrind saw run.
func TestRanLinesCallgrind(t *testing.T) {
	besideCallgrind(t, true, []callgrindRun{
		{"program", "", []string{processtest.Compile(t, ranProgram, "-O2", "-g", "-lpthread"), "3"}},
		{"fixed addresses", "", []string{processtest.Compile(t, ranProgram, "-Os", "-g", "-no-pie", "-fcf-protection=full", "-lpthread"), "3"}},
	}, func(t *testing.T, p *RanProgram, executed map[uint64]bool) {
		compareBlocks(t, p, executed)
		compareExecuted(t, p, executed)
	})
}

func compareBlocks(t *testing.T, p *RanProgram, executed map[uint64]bool) {
	ran, unknown, inferred, windows, differ := 0, 0, 0, 0, 0
	for _, b := range p.blocks {
		did := executed[b.addr]
		if b.window {
			windows++
		} else if b.known {
			inferred++
		}
		switch {
		case !b.known:
			unknown++
		case b.ran != did:
			if differ++; differ < 20 {
				t.Errorf("%s: %s: the block at %#x, armed: %v, ran: %v, callgrind: %v", p.ShortName(), b.fn.Name, b.addr, b.window, b.ran, did)
			}
		case did:
			ran++
		}
	}
	lines, not, undecided := p.lines()
	t.Logf("%s: %d blocks, %d armed, %d inferred, %d unknown; %d ran, %d differ; lines: %d ran, %d did not, %d (%.2f %%) are not known",
		p.ShortName(), len(p.blocks), windows, inferred, unknown, ran, differ, lines, not, undecided, 100*float64(undecided)/float64(max(1, lines+not+undecided)))
	if ran == 0 || unknown*5 > len(p.blocks) {
		t.Errorf("%s: %d of %d blocks ran, %d unknown", p.ShortName(), ran, len(p.blocks), unknown)
	}
	divided := 0
	for _, fn := range p.Functions {
		if len(fn.blocks) > 0 {
			divided++
		}
	}
	t.Logf("%d of %d functions are divided", divided, len(p.Functions))
}

// compareExecuted looks for lines that did not run, as it is said, though callgrind saw code of theirs run.
func compareExecuted(t *testing.T, p *RanProgram, executed map[uint64]bool) {
	f, err := elf.Open(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		t.Logf("%s: %v", p.Path, err)
		return
	}
	type line struct {
		file string
		line int
	}
	states := make(map[line]lineState)
	for at, state := range p.lineStates() {
		states[line{p.files[at.file], int(at.line)}] = state
	}
	compared := 0
	for units := data.Reader(); ; units.SkipChildren() {
		unit, err := units.Next()
		if unit == nil || err != nil {
			break
		}
		rows, err := data.LineReader(unit)
		if rows == nil || err != nil {
			continue
		}
		var row, next dwarf.LineEntry
		for rows.Next(&next) == nil {
			for addr := row.Address; row.File != nil && !row.EndSequence && addr < next.Address; addr++ {
				if state := states[line{row.File.Name, row.Line}]; executed[addr] && state != 0 {
					if compared++; state == lineNot {
						t.Errorf("%s:%d did not run: code at %#x did", row.File.Name, row.Line, addr)
					}
				}
			}
			row = next
		}
	}
	if compared == 0 {
		t.Errorf("%s: no line was compared", p.Path)
	}
}

// TestRanLinesGcov compares the lines that ran with those that gcov tells of the same source: what is
// said of a line is the same. The optimizer leaves no line to some of gcov's, and moves others.
func TestRanLinesGcov(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "lines.c")
	if err := os.WriteFile(source, []byte(ranLinesProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	processtest.Run(t, dir, "gcc-12", "-w", "-O0", "--coverage", "-o", "counted", source)
	args := []string{"1", "3", "20", "-4", "12"}
	processtest.Run(t, dir, filepath.Join(dir, "counted"), args...)
	processtest.Run(t, dir, "gcov-12", "counted-lines.gcda")
	text := strings.Split(ranLinesProgram, "\n")
	want := gcovLines(t, filepath.Join(dir, "lines.c.gcov"))
	for _, level := range []string{"-O1", "-O2", "-Os"} {
		program := filepath.Join(dir, "plain"+level)
		processtest.Run(t, dir, "gcc-12", "-w", level, "-g", "-o", program, source)
		o := ranOptions(t)
		o.Lines = true
		_, programs := runWatched(t, o, nil, append([]string{program}, args...)...)
		states := programs[0].states()
		compared := 0
		for line, ran := range want {
			state, known := states[int32(line)]
			if !known || state == lineUnknown {
				continue
			}
			if compared++; level == "-O1" && strings.TrimSpace(text[line-1]) == "break;" {
				continue // one jump serves several cases, and is the statement of one of them
			}
			if (state == lineRan) != ran {
				t.Errorf("%s: line %d ran: %v, gcov: %v", level, line, state == lineRan, ran)
			}
		}
		t.Logf("%s: %d lines are the same", level, compared)
		if compared < len(want)/2 {
			t.Errorf("%s: %d of %d lines are compared", level, compared, len(want))
		}
	}
}

// TestRanLinesPadding knows of lines that have rows in what is between functions, behind a jump to another one.
func TestRanLinesPadding(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "lines.c"), filepath.Join(dir, "plain")
	if err := os.WriteFile(source, []byte(`
#include <stdlib.h>
struct list { struct list *next; };
void __attribute__((noinline)) release(struct list *l) {
	while (l->next) {
		struct list *next = l->next->next;
		free(l->next);
		l->next = next;
	}
	free(l);
}
void __attribute__((noinline)) forget(struct list *l) {
	release(l->next);
	release(l);
}
int main(int n, char **v) {
	if (n > 1)
		forget(malloc(n));
	return 0;
}
`), 0o666); err != nil {
		t.Fatal(err)
	}
	processtest.Run(t, dir, "gcc-12", "-O2", "-g", "-o", program, source)
	o := ranOptions(t)
	o.Lines = true
	_, programs := runWatched(t, o, nil, program)
	states := programs[0].states()
	for line := range int32(15) { // up to main
		if state := states[line]; state == lineRan || state == lineUnknown {
			t.Errorf("line %d did not run, but: %d", line, state)
		}
	}
	if states[10] != lineNot || states[16] != lineRan {
		t.Errorf("states are %v", states)
	}
}

// states are those of the lines of a program of one source.
func (p *RanProgram) states() map[int32]lineState {
	states := make(map[int32]lineState)
	for at, state := range p.lineStates() {
		if filepath.Base(p.files[at.file]) == "lines.c" {
			states[at.line] = state
		}
	}
	return states
}

// gcovLines reads which lines ran of a listing of gcov's.
//
//	5:   12:text       #####:   13:text       -:   14:text
func gcovLines(t *testing.T, path string) map[int]bool {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(map[int]bool)
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(line, ":", 3)
		number, err := strconv.Atoi(strings.TrimSpace(f[1]))
		if count := strings.TrimSpace(f[0]); err == nil && number > 0 && count != "-" {
			ran[number] = count != "#####"
		}
	}
	return ran
}

// ranLinesProgram has all kinds of statements, and calls in each branch, which no optimizer moves.
const ranLinesProgram = `
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#define APART __attribute__((noinline, noclone))
static jmp_buf back;
APART void say(const char *text) { fputs(text, stderr); }
APART int leaves(int n) {
	if (n == 3)
		longjmp(back, 1);
	say("stays\n");
	return n;
}
APART int choose(int n) {
	switch (n) {
	case 0:
		say("zero\n");
		return 5;
	case 1:
		say("one\n");
		return 7;
	case 2:
		say("two\n");
		return 9;
	case 3:
		say("three\n");
		break;
	case 4:
		say("four\n");
		break;
	case 5:
		if (getenv("NOBODY_SETS_THIS"))
			say("five\n");
		else
			say("never\n");
		break;
	default:
		say("more\n");
		abort();
	}
	say("behind\n");
	return n;
}
APART int loop(int n) {
	int sum = 0;
	for (int i = 0; i < n; i++) {
		if (i == 7) {
			say("seven\n");
			sum += choose(0);
		} else if (i == 100) {
			say("hundred\n");
			sum += choose(2);
		}
	}
	while (n-- > 15)
		say("large\n");
	do {
		say("once\n");
	} while (n > 100);
	return sum;
}
int main(int n, char **v) {
	for (int i = 1; i < n; i++) {
		int k = atoi(v[i]);
		if (k < 0) {
			say("negative\n");
			choose(-k);
		} else if (k > 10) {
			loop(k);
		} else if (setjmp(back) == 0) {
			leaves(k);
			choose(k);
		} else {
			say("jumped\n");
		}
	}
	if (n == 1)
		say("nothing\n");
	return 0;
}
`
