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
//
// With the macro FOOTFALL_THREADS each thread has its own copy of counters for
// [Thread]: set to 1 for a dynamically linked program, to 2 for one that is linked
// with --wrap for pthread_create, thrd_create and clone, as static ones must be.
//
// With the macro FOOTFALL_SIGNALS, 1 or 2 likewise, handlers of signals complete an
// increment of [Split] that they have interrupted.
func Runtime() []byte {
	source := inline(runtimeC, "#include \"threads.h\"\n", runtimeThreads)
	source = inline(source, "#include \"signals.h\"\n", runtimeSignals)
	return []byte(inline(source, "#include \"stats.h\"\n", runtimeStats))
}

//go:embed runtime/footfall.c
var runtimeC string

//go:embed runtime/signals.h
var runtimeSignals string

//go:embed runtime/threads.h
var runtimeThreads string

//go:embed runtime/stats.h
var runtimeStats string

// inline puts a file in the place of its #include.
func inline(source, include, file string) string {
	before, after, _ := strings.Cut(source, include)
	return before + file + after
}
