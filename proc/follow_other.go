//go:build linux && !amd64

package proc

// entryCode is nil where programs cannot be followed.
func entryCode(uint64) []byte { return nil }
