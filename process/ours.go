package process

import "strings"

// MemoryPrefix is what the names begin with of the files in memory (memfd) that footfall maps in other processes: by these it
// finds what a footfall that was killed has left.
const MemoryPrefix = "footfall-"

// IsOurs tells whether a file, as /proc names it, is one that footfall has made in memory.
func IsOurs(path string) bool { return strings.HasPrefix(path, "/memfd:"+MemoryPrefix) }
