//go:build !linux

package early

// asCompiler is nothing here: no program is made.
func asCompiler([]string) {}
