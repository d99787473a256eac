//go:build linux && !amd64 && !arm64

package process

// entryCode is nil where programs cannot be followed.
func entryCode([]byte, uint64) []byte { return nil }

func nearEntry(begin, entry uint64) uint64 { return entry }

func entryJump([]byte, uint64, uint64) (jump, displaced []byte) { return nil, nil }
