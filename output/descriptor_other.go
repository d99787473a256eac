//go:build !linux

package output

import "strings"

// isDescriptor tells whether name is that of an open file.
func isDescriptor(name string) bool {
	return strings.HasPrefix(name, "/dev/fd/") || name == "/dev/stdout" || name == "/dev/stderr"
}
