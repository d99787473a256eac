// Package needs is for tests: what the machine that they run on does not permit or
// have. A test that needs it is skipped, unless that is required.
package needs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Features that FOOTFALL_REQUIRE can name, separated by commas.
const (
	Ptrace  = "ptrace"  // other processes may be stopped
	FUSE    = "fuse"    // file systems may be mounted
	Uprobes = "uprobes" // the kernel's probes and BPF
	Perf    = "perf"    // sampling by the kernel
	Root    = "root"    // other users' rights
	Tools   = "tools"   // compilers, and coverage programs to compare with: scripts/test installs them
	Rust    = "rust"    // its compiler, which is not installed
)

// Skip skips a test for want of a feature; why says what is missing. If FOOTFALL_REQUIRE
// names the feature the test fails. If FOOTFALL_SKIPPED names a file it says there
// what was skipped.
func Skip(tb testing.TB, feature string, why any) {
	tb.Helper()
	if Required(feature) {
		tb.Fatalf("FOOTFALL_REQUIRE has %s: %v", feature, why)
	}
	Note(tb.Name(), feature, why)
	tb.Skipf("needs %s: %v", feature, why)
}

// Required tells whether FOOTFALL_REQUIRE names the feature.
func Required(feature string) bool {
	return slices.Contains(strings.Split(os.Getenv("FOOTFALL_REQUIRE"), ","), feature)
}

// Note adds a line to the file that FOOTFALL_SKIPPED names.
func Note(test, feature string, why any) {
	name := os.Getenv("FOOTFALL_SKIPPED")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s: needs %s: %v\n", test, feature, why)
}
