package instrument

import (
	"bytes"
	"testing"
)

func TestTieSites(t *testing.T) {
	const (
		comdat = "\t.section\t.text._Z1fv,\"axG\",@progbits,_Z1fv,comdat\n.LPFE1:\n"
		text   = "\t.text\n.LPFE2:\n"
		split  = "\t.section\t.text.startup.main\n.LPFE2:\n" // declared before
		first  = "\t.align 8\n\t.quad\t.LPFE1\n"
		second = "\t.align 8\n\t.quad\t.LPFE2\n"
	)
	for _, test := range []struct{ name, src, want string }{
		{"GCC 12",
			"\t.section\t__patchable_function_entries,\"awo\",@progbits,_Z1fv\n" + first + comdat +
				"\t.section\t__patchable_function_entries,\"awo\",@progbits,_Z1fv\n" + second + text,
			"\t.section\t__patchable_function_entries,\"awGo\",@progbits,.LPFE1,_Z1fv,comdat\n" + first + comdat +
				"\t.section\t__patchable_function_entries,\"awo\",@progbits,.LPFE2\n" + second + text},
		{"GCC 10",
			"\t.section\t__patchable_function_entries,\"aw\",@progbits\n" + first + comdat +
				"\t.section\t__patchable_function_entries\n" + second + split,
			"\t.section\t__patchable_function_entries,\"awG\",@progbits,_Z1fv,comdat\n" + first + comdat +
				"\t.section\t__patchable_function_entries,\"aw\",@progbits\n" + second + split},
		{"GCC 9",
			"\t.section\t__patchable_function_entries,\"aw\",%progbits\n\t.long\t.LPFE1\n" + comdat,
			"\t.section\t__patchable_function_entries,\"awG\",%progbits,_Z1fv,comdat\n\t.long\t.LPFE1\n" + comdat},
		{"tied already",
			"\t.section\t__patchable_function_entries,\"awGo\",@progbits,.LPFE1,_Z1fv,comdat\n" + first + comdat,
			"\t.section\t__patchable_function_entries,\"awGo\",@progbits,.LPFE1,_Z1fv,comdat\n" + first + comdat},
		{"by hand",
			"\t.section\t__patchable_function_entries,\"aw\",@progbits\n\t.quad 1b\n\t.quad 2b\n" + text,
			"\t.section\t__patchable_function_entries,\"aw\",@progbits\n\t.quad 1b\n\t.quad 2b\n" + text},
		{"cut", "\t.section\t__patchable_function_entries,\"aw\",@progbits\n\t.quad\t.LPFE1", "\t.section\t__patchable_function_entries,\"aw\",@progbits\n\t.quad\t.LPFE1"},
	} {
		if got := string(TieSites([]byte(test.src))); got != test.want {
			t.Errorf("%s:\ngot\n%swant\n%s", test.name, got, test.want)
		}
	}
}

func FuzzTieSites(f *testing.F) {
	f.Add([]byte("\t.section\t__patchable_function_entries,\"awo\",@progbits,f\n\t.align 8\n\t.quad\t.LPFE1\n\t.section\t.text.f,\"axG\",@progbits,f,comdat\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		once := TieSites(src)
		if bytes.Count(once, []byte("\n")) != bytes.Count(src, []byte("\n")) {
			t.Errorf("%d lines have become %d", bytes.Count(src, []byte("\n")), bytes.Count(once, []byte("\n")))
		}
	})
}
