package exe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// TestParameters compares places with those of the calling convention. That
// they are right for running programs patch and the tests of commands show.
func TestParameters(t *testing.T) {
	dir := t.TempDir()
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
		object := filepath.Join(dir, "p.so")
		source := filepath.Join(dir, test.source)
		if err := os.WriteFile(source, []byte(test.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(test.compiler, "-O2", "-g", "-shared", "-fpic", "-o", object, source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		f, err := os.Open(object)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		file, err := Open(f)
		if err != nil {
			t.Fatal(err)
		}
		functions, err := file.Functions()
		if err != nil {
			t.Fatal(err)
		}
		lines, err := file.Lines()
		if err != nil {
			t.Fatal(err)
		}
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
