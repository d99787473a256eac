//go:build linux

package uprobe

import "strings"

// notCalled is code that is entered otherwise than by a call: there is no return
// address where that of a function is. setjmp and its like keep the return
// address, vfork returns twice.
var notCalled = map[string]bool{
	"_start": true, "_init": true, "_dl_start": true, "_dl_start_user": true, "__restore_rt": true, "__morestack": true,
	"setjmp": true, "_setjmp": true, "__setjmp": true, "sigsetjmp": true, "__sigsetjmp": true, "longjmp": true, "siglongjmp": true,
	"vfork": true, "__vfork": true, "__libc_vfork": true,
	"getcontext": true, "__getcontext": true, "setcontext": true, "__setcontext": true, "swapcontext": true, "__swapcontext": true, "__start_context": true,
	"__clone": true, "clone": true, "__clone3": true, "__clone_internal": true,
}

// IsCalled tells whether a symbol is that of a function which is called, and
// returns, in the usual way. Compilers move rare parts of functions apart
// ("f.cold"): these are jumped to.
func IsCalled(symbol string) bool {
	// Where a program of Go begins ("_rt0_amd64_linux") it is kept until it is traced.
	return !notCalled[symbol] && !strings.HasPrefix(symbol, "_rt0_") && !strings.HasPrefix(symbol, "_dl_runtime_") && !strings.HasPrefix(symbol, "_dl_tlsdesc_") &&
		!strings.HasSuffix(symbol, ".cold") && !strings.Contains(symbol, ".cold.")
}

// ForbidsExits tells why the exits of a program that has the function must not
// be watched: the kernel replaces return addresses by that of its own code. ""
// if they may be.
func ForbidsExits(symbol string) string {
	switch symbol {
	case "__cxa_throw":
		return "an exception cannot pass a function whose exit the kernel watches"
	case "runtime.morestack", "runtime.morestack.abi0": // by Go's linkers before 1.26, and since
		return "Go moves stacks, and finds the kernel's return addresses on them"
	}
	return ""
}
