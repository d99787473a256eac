package binary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const parametersC = `
#include <stdbool.h>
typedef char *text;
enum color { RED, GREEN = -3 };
struct small { int a, b; };
struct mixed { double a; long b; };
struct big { long a[3]; };
int sink;
long plain(int a, const char *b, unsigned char c, char d, bool e, enum color f, short g, void *h, const text i) { return sink += a; }
double floats(float a, double b, int c, long double d, unsigned e) { return sink += c; }
struct big hidden(struct small s, struct mixed m, struct big b, int last) { struct big r = {{sink += last}}; return r; }
struct mixed shown(int a) { struct mixed m = {0, sink += a}; return m; }
int unknown(int a, _Complex double b, int c) { return sink += a; }
int none(void) { return sink++; }
`

const parametersCC = `
#include <string>
struct pair { int a; double b; };
struct derived : pair { };
struct copied { int a; copied(const copied &) = default; };
struct copies { int a; copies(const copies &); };
struct moved { copies a; };
struct thing {
	int sink;
	virtual int method(int a, const char *b);
	std::string name(int a, std::string b, int &c);
	int by_value(pair a, int b, derived c, int d);
	int words(copied a, int b, copies c, int d, moved e, int f);
};
int thing::method(int a, const char *b) { return sink += a; }
std::string thing::name(int a, std::string b, int &c) { return b; }
int thing::by_value(pair a, int b, derived c, int d) { return sink += b; }
int thing::words(copied a, int b, copies c, int d, moved e, int f) { return sink += f; }
`

// compiledLibrary makes a shared library of a source, and reads its functions and lines.
func compiledLibrary(t *testing.T, compiler, source, text string) (object string, functions []FunctionSymbol, lines *Lines) {
	t.Helper()
	dir := t.TempDir()
	source, object = filepath.Join(dir, source), filepath.Join(dir, "p.so")
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	command := append(strings.Fields(compiler), "-O2", "-g", "-shared", "-fpic", "-o", object, source)
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	file, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	if functions, err = file.Functions(); err != nil {
		t.Fatal(err)
	}
	if lines, err = file.Lines(); err != nil {
		t.Fatal(err)
	}
	return object, functions, lines
}

// TestParameters compares places with those of the calling convention. That
// they are right for running programs patch and the tests of commands show.
func TestParameters(t *testing.T) {
	const cc = `
thing::by_value: this:7:0:0 b:1:32:2 parameter c: it is not known how a struct derived is passed
thing::method: this:7:0:0 a:1:32:1 b:8:0:2
thing::words: this:7:0:0 b:1:32:2 d:1:32:4 f:1:32:6
thing::name: this:7:0:1 a:1:32:2 c:7:0:4`
	for _, test := range []struct{ compiler, source, text, want string }{
		{"gcc-12", "p.c", parametersC, `
floats: a:6:32:0 b:6:64:1 c:1:32:0 e:2:32:1
hidden: last:1:32:3
none:
plain: a:1:32:0 b:8:0:1 c:2:8:2 d:3:0:3 e:4:0:4 f:5:32:5 g:1:16:6 h:7:0:7 i:8:0:8
shown: a:1:32:0
unknown: a:1:32:0 parameter b: it is not known how a complex double is passed`},
		{"clang-16", "p.c", parametersC, `
floats: a:6:32:0 b:6:64:1 c:1:32:0 e:2:32:1
hidden: last:1:32:3
none:
plain: a:1:32:0 b:8:0:1 c:2:8:2 d:3:0:3 e:4:0:4 f:5:32:5 g:1:16:6 h:7:0:7 i:8:0:8
shown: a:1:32:0
unknown: a:1:32:0 parameter b: it is not known how a complex double is passed`},
		{"g++-12", "p.cc", parametersCC, cc}, {"clang++-16", "p.cc", parametersCC, strings.Replace(cc, "b:1:32:2 d:1:32:4 f:1:32:6", "b:1:32:2 parameter c: it is not known how a struct copies is passed", 1)},
	} {
		_, functions, lines := compiledLibrary(t, test.compiler, test.source, test.text)
		found := make(map[string]string)
		for _, fn := range functions {
			frames := lines.Frames(fn.Addr)
			if len(frames) == 0 {
				continue
			}
			parameters, err := lines.Parameters(fn.Addr)
			var b strings.Builder
			for _, p := range parameters {
				fmt.Fprintf(&b, " %s:%d:%d:%d", p.Name, p.Kind, p.Bits, p.Index)
				if p.Kind == Enum && (p.Values[0] != "RED" || p.Values[-3] != "GREEN") {
					t.Errorf("values are %v", p.Values)
				}
			}
			if err != nil {
				fmt.Fprintf(&b, " %v", err)
			}
			found[fn.Name] = b.String()
		}
		for _, want := range strings.Split(test.want[1:], "\n") {
			name, parameters, _ := strings.Cut(want, ":")
			if rest, ok := strings.CutPrefix(want, "thing::"); ok {
				name, parameters, _ = strings.Cut(rest, ":")
			}
			got, ok := found[name]
			for symbol, p := range found {
				if strings.HasPrefix(symbol, fmt.Sprintf("_ZN5thing%d%sE", len(name), name)) {
					got, ok = p, true
				}
			}
			if !ok || got != parameters {
				t.Errorf("%s %s: %q, want %q", test.compiler, name, got, parameters)
			}
		}
	}
}

// Each function returns its last parameter, so that its code says where that is.
const parametersARM64 = `
struct small { int a, b; };
struct three { char a[3]; };
struct pair { long a, b; };
struct big { long a[3]; };
struct wide { __int128 a; };
struct floats { float a, b, c; };
struct point { double x, y, z; };
struct lines { struct point a[1]; double b; };
struct mixed { double a; long b; };
struct mixed2 { double a; float b; };
struct many { float a[5]; };
struct quad { long double a, b; };
union either { float a; float b[2]; };
union other { float a; int b; };
#define F(name, type, ...) type name(__VA_ARGS__, type last) { return last; }
F(integers, int, int a, char b, long c, void *d)
F(eight, int, int a, int b, int c, int d, int e, int f, int g)
F(nine, int, int a, int b, int c, int d, int e, int f, int g, int h)
F(eleven, int, int a, int b, int c, int d, int e, int f, int g, int h, char i, long j)
F(doubles, double, double a, float b, int c, long double d)
F(between, int, double a, int b, float c, double d)
F(manyfloats, int, double a, double b, double c, double d, double e, double f, double g, double h, float i, double j)
F(takesmall, int, struct small a)
F(takethree, int, struct three a)
F(takepair, int, int a, struct pair b)
F(takepairs, int, struct pair a, struct pair b, struct pair c, int x, struct pair d)
F(afterpair, int, struct pair a, struct pair b, struct pair c, int x, struct pair d, int e)
F(takebig, int, struct big a, int b)
F(takebigs, int, int a, int b, int c, int d, int e, int f, int g, int h, struct big i, struct big j)
F(takewide, int, int a, __int128 b)
F(takewidestruct, int, int a, struct wide b)
F(widestack, int, int a, int b, int c, int d, int e, int f, int g, __int128 h)
F(widestack2, int, int a, int b, int c, int d, int e, int f, int g, int h, int i, __int128 j)
F(takefloats, double, struct floats a)
F(takepoint, double, float a, struct point b)
F(takelines, double, struct lines b)
F(takepoints, int, struct point a, struct point b, struct point c)
F(pointstack, int, struct point a, struct point b, struct point c, int d, int e, int f, int g, int h, int i, int j, int k)
F(takemixed, int, struct mixed a, double b)
F(takemixed2, int, struct mixed2 a)
F(takemany, int, struct many a)
F(takequad, double, struct quad a)
F(quadstack, int, double a, double b, double c, double d, double e, double f, double g, struct quad h, int i, int j, int k, int l, int m, int n, int o, int p)
F(takeeither, double, union either a)
F(takeother, int, union other a)
F(complex, double, _Complex double a)
struct big returnsbig(int a, int last) { struct big b = {{last}}; return b; }
`

const parametersARM64CC = `
struct empty { };
struct point { double x, y; };
struct copies { int a; copies(const copies &); };
struct thing { int a; int method(int b, int last); };
#define F(name, type, ...) type name(__VA_ARGS__, type last) { return last; }
F(takeempty, int, empty a)
F(takepoint, double, point a)
F(takecopies, int, int a, copies b)
F(reference, int, int &a, point &&b)
int thing::method(int b, int last) { return last; }
copies::copies(const copies &) { }
`

// TestParametersARM64 compares places with those where compilers look.
func TestParametersARM64(t *testing.T) {
	for _, test := range []struct {
		compiler, source, text string
		functions              int
	}{
		{"aarch64-linux-gnu-gcc", "p.c", parametersARM64, 24}, // it does more at the beginning of the others
		{"clang-16 --target=aarch64-linux-gnu", "p.c", parametersARM64, 30},
		{"clang++-16 --target=aarch64-linux-gnu", "p.cc", parametersARM64CC, 5},
	} {
		object, functions, lines := compiledLibrary(t, test.compiler+" -w -nostdlib", test.source, test.text)
		compared := 0
		for _, fn := range functions {
			want, ok := returnedPlace(t, object, fn)
			if !ok || strings.HasPrefix(fn.Name, "_ZN6copiesC") {
				continue
			}
			parameters, err := lines.Parameters(fn.Addr)
			if err != nil || len(parameters) == 0 || parameters[len(parameters)-1].Name != "last" {
				t.Errorf("%s: %s: parameters %v, error %v", test.compiler, fn.Name, parameters, err)
				continue
			}
			if got := parameters[len(parameters)-1].Index; got != want {
				t.Errorf("%s: %s: at %d, want %d", test.compiler, fn.Name, got, want)
			}
			compared++
		}
		if compared < test.functions {
			t.Errorf("%s: %d functions compared, want %d", test.compiler, compared, test.functions)
		}
	}
}

var returnedText = regexp.MustCompile(`^(?:f?mov\s+[wd]0, [wd](\d)|ldr\s+w0, \[sp(?:, #(\d+))?\]|ret)(?:\s|$)`)

// returnedPlace returns where the function on arm64 has what it returns, by its first
// instruction.
func returnedPlace(t *testing.T, object string, fn FunctionSymbol) (place int, ok bool) {
	t.Helper()
	out, err := exec.Command("aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", fmt.Sprintf("--start-address=%#x", fn.Addr), fmt.Sprintf("--stop-address=%#x", fn.Addr+fn.Size), object).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		_, text, found := strings.Cut(line, fmt.Sprintf("%x:\t", fn.Addr))
		if m := returnedText.FindStringSubmatch(text); found && m != nil {
			register, _ := strconv.Atoi(m[1])
			offset, _ := strconv.Atoi(m[2])
			if strings.HasPrefix(text, "ldr") {
				return registersARM64 + offset/8, true
			}
			return register, true
		}
	}
	return 0, false
}
