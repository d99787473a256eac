//go:build linux

package compile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/compile/instrument"
)

func TestOrders(t *testing.T) {
	for _, want := range []Orders{
		{Assembler: "/usr/bin/as"},
		{
			Assembler: "as \"of\" \\mine\n", Update: instrument.Thread, Only: []string{"a*", ""}, Not: []string{"\xff"},
			Sources: []string{"x.c", "ä\x00.c"}, CPU: "386", Verbose: true, Calls: true, Sites: true, KeepR11: true,
			Compiler: "/usr/bin/clang", Linker: "/opt/ld", Target: []string{"-m32", "--sysroot=/"},
		},
	} {
		var got Orders
		if !got.parse(want.String()) {
			t.Errorf("cannot read %s", want.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.String(), diff)
		}
	}
}

func TestReadOrders(t *testing.T) {
	t.Setenv(ordersVariable, `assembler"/usr/bin/as"`)
	if o, err := ReadOrders([]string{"/bin/cat"}); o != nil || err != nil {
		t.Errorf("by another name: %v, %v", o, err)
	}
	for _, text := range []string{"1", `assembler`, `assembler"`, `cpu"386"`, `assembler"as"what""`, `assembler"as"update"now"`} {
		t.Setenv(ordersVariable, text)
		if o, err := ReadOrders([]string{"/cache/as"}); err == nil {
			t.Errorf("%s: %v, want an error", text, o)
		}
	}
}

func FuzzOrders(f *testing.F) {
	f.Add(`assembler"/usr/bin/as"source"x.c"calls""update"thread"`)
	f.Fuzz(func(t *testing.T, text string) {
		var o, again Orders
		if o.parse(text) && (!again.parse(o.String()) || cmp.Diff(o, again) != "") {
			t.Errorf("%q: %v, then %v", text, o, again)
		}
	})
}
