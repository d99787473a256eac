package change

import (
	"path/filepath"
	"strings"
)

// isSource tells whether a name is one that compilers with coverage take.
func isSource(name string) bool {
	switch extension(name) {
	case "h", "hh", "hpp", "hxx", "h++", "inc", "inl", "ipp", "tcc", "tpp", "ads", "s":
		return true
	}
	return IsUnit(name)
}

// IsUnit tells whether a name is that of a source which compilers take by
// itself, and which mostly has code.
func IsUnit(name string) bool {
	switch extension(name) {
	case "c", "cc", "cpp", "cxx", "c++", "m", "mm", "cu", "rs", "d", "adb", "f", "for", "f77", "f90", "f95", "f03", "f08", "go", "y", "l":
		return true
	}
	return false
}

func extension(name string) string {
	return strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
}
