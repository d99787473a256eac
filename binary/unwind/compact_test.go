package unwind_test

import (
	"fmt"
	"footfall/binary"
	"footfall/binary/unwind"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const unwindProgram = `
int __attribute__((noinline)) leaf(int x) { return x * 3 + 1; }
int __attribute__((noinline)) saves(int a, int b, int c) { int x = leaf(a), y = leaf(b); return leaf(c + x) * x + y; }
int __attribute__((noinline)) array(int n) { volatile char b[n]; b[0] = 1; int v = leaf(n); return v + b[0]; }
int main(int argc, char **argv) { (void)argv; return saves(argc, 2, 3) + array(argc); }
`

// TestCompactRows compares rows with those that readelf interprets.
func TestCompactRows(t *testing.T) {
	for compiler, registers := range map[string][2]string{
		"gcc-12": {"rsp", "rbp"}, "clang-16": {"rsp", "rbp"},
		"aarch64-linux-gnu-gcc": {"sp", "x29"}, "clang-16 --target=aarch64-linux-gnu": {"sp", "x29"},
	} {
		for _, level := range []string{"-O0", "-O2", "-O2 -fomit-frame-pointer", "-O1 -mbranch-protection=standard"} {
			if strings.Contains(level, "protection") && registers[0] != "sp" {
				continue
			}
			t.Run(compiler+level, func(t *testing.T) {
				dir := t.TempDir()
				source, program := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
				if err := os.WriteFile(source, []byte(unwindProgram), 0o666); err != nil {
					t.Fatal(err)
				}
				command := append(strings.Fields(compiler+" "+level), "-o", program, source)
				if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				out, err := exec.Command("readelf", "--debug-dump=frames-interp", "--wide", program).Output()
				if err != nil {
					t.Fatal(err)
				}
				file, err := os.Open(program)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				f, err := binary.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				rows, err := f.UnwindRows()
				if err != nil {
					t.Fatal(err)
				}
				compared := 0
				for addr, want := range readelfRows(string(out), registers[1]) {
					i := sort.Search(len(rows), func(i int) bool { return rows[i].Addr > addr }) - 1
					if i < 0 {
						t.Errorf("%x: no row", addr)
						continue
					}
					r := rows[i]
					register := registers[0]
					if r.FromFramePointer {
						register = registers[1]
					}
					got := fmt.Sprintf("%s+%d fp %d ra c%d", register, r.CFA, r.FramePointer, r.Return)
					if !r.Known {
						got = "unknown"
					}
					if got != want {
						t.Errorf("%x: %s, want %s", addr, got, want)
					}
					compared++
				}
				if compared < 8 {
					t.Errorf("only %d rows compared", compared)
				}
			})
		}
	}
}

var (
	rowLine    = regexp.MustCompile(`^([0-9a-f]{16}) +(.*)$`)
	columnLine = regexp.MustCompile(`^ +LOC +CFA +(.*)$`)
)

// readelfRows reads tables like
//
//	   LOC           CFA      rbx   rbp   ra
//	0000000000001130 rsp+8    u     u     c-8
func readelfRows(text, framePointer string) map[uint64]string {
	rows := make(map[uint64]string)
	var columns []string
	function := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.Contains(line, " CIE ") {
			function = false
		}
		if strings.Contains(line, " FDE ") {
			function = true
		}
		if m := columnLine.FindStringSubmatch(line); m != nil {
			columns = strings.Fields(m[1])
			continue
		}
		m := rowLine.FindStringSubmatch(line)
		if m == nil || !function || strings.Contains(line, "=") {
			continue
		}
		addr, _ := strconv.ParseUint(m[1], 16, 64)
		values := strings.Fields(m[2])
		fp, ra := 0, ""
		for i, column := range columns {
			if i+1 >= len(values) {
				break
			}
			value := values[i+1]
			if column == framePointer && strings.HasPrefix(value, "c") {
				fp, _ = strconv.Atoi(value[1:])
			}
			if column == "ra" {
				ra = value
			}
		}
		if values[0] == "exp" {
			continue // of stubs of the linker; readelf may leave out the next function's row
		}
		if rows[addr] = fmt.Sprintf("%s fp %d ra %s", values[0], fp, ra); !strings.HasPrefix(ra, "c") {
			rows[addr] = "unknown"
		}
	}
	return rows
}

func FuzzCompactRows(f *testing.F) {
	f.Add([]byte("\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01x\x10\x01\x1b\x0c\x07\x08\x90\x01\x00\x00" +
		"\x18\x00\x00\x00\x1c\x00\x00\x00\x00\x10\x00\x00\x20\x00\x00\x00\x00A\x0e\x10\x86\x02C\x0d\x06\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, o := range options {
			rows := unwind.Read(b, o).CompactRows()
			for i := 1; i < len(rows); i++ {
				if rows[i].Addr < rows[i-1].Addr {
					t.Fatal("rows are not in order")
				}
			}
		}
	})
}
