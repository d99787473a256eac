package instrument

import (
	_ "embed"
	"strings"
)

// Runtime is the C source of the runtime, in one file. It is to be compiled
// without instrumentation, by the compiler of the program and for the same
// target, and linked into each program and shared library.
//
// With the macro FOOTFALL_STATS_ONLY set to 1 a program writes the table stats at
// its end, and a counts file only if FOOTFALL_OUT names one.
func Runtime() []byte { return inline(runtimeC, "#include \"stats.h\"\n", runtimeStats) }

//go:embed runtime/footfall.c
var runtimeC string

//go:embed runtime/stats.h
var runtimeStats string

// inline puts a file in the place of its #include.
func inline(source, include, file string) []byte {
	before, after, _ := strings.Cut(source, include)
	return []byte(before + file + after)
}
