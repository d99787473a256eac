package listing

import (
	"crypto/md5"
	"encoding/hex"
	"os"
	"strings"

	"footfall/formats/gcov"
)

// canonicalName is the name by which gcov knows a source: without repeated
// slashes and "." components, and without "x/.." where x can be found.
func canonicalName(name string) string {
	if !strings.Contains(name, "//") && !strings.HasPrefix(name, "./") && !strings.Contains(name, "/.") &&
		name != "." && name != ".." && !strings.HasPrefix(name, "../") && !strings.HasSuffix(name, "/") {
		return name
	}
	out := make([]byte, 0, len(name))
	kept := 0      // a leading part that must not be elided any more
	slash := false // a slash is due before the next component
	for len(name) > 0 {
		part, _, _ := strings.Cut(name, "/")
		name = name[len(part):]
		switch {
		case part == ".":
		case part == ".." && len(out) > kept && exists(string(out)):
			i := len(out) - 1
			for i > kept && out[i] != '/' {
				i--
			}
			out = out[:max(i, kept)]
			slash = len(out) != 0
		default:
			if part == ".." {
				kept = len(out) + 2
				if slash {
					kept++
				}
			}
			if slash {
				out = append(out, '/')
			}
			out = append(out, part...)
			slash = true
		}
		name = strings.TrimLeft(name, "/")
	}
	return string(out)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// baseName is what follows the last slash.
func baseName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// stem is name without what follows its last dot.
func stem(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}

// manglePath makes one component of a path: "a/../b" becomes "a#^#b".
func manglePath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if p == ".." {
			parts[i] = "^"
		}
	}
	return strings.Join(parts, "#")
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// mangle is the part of an output's name that a source gives.
func (o *options) mangle(name string) string {
	if o.preserve {
		return manglePath(name)
	}
	return baseName(name)
}

// listingName is the name of the listing of source for the operand input.
func (o *options) listingName(input, source string) string {
	switch {
	case o.hash:
		return o.mangle(source) + "##" + md5Hex(source) + ".gcov"
	case o.long && input != source:
		return o.mangle(input) + "##" + o.mangle(source) + ".gcov"
	}
	return o.mangle(source) + ".gcov"
}

// jsonName is the name of the JSON file for an operand.
func (o *options) jsonName(v gcov.Version, input string) string {
	base := baseName(input)
	if !jsonNameIsStem(v) {
		return base + ".gcov.json.gz"
	}
	name := stem(base)
	switch {
	case o.hash:
		name += "##" + md5Hex(input)
	case o.preserve && base != input:
		name = stem(name + "##" + manglePath(input))
	}
	return name + ".gcov.json.gz"
}

// fileNames are the names of the notes and the data file for an operand.
func (o *options) fileNames(operand string) (notes, data string) {
	name := operand
	if o.object != "" {
		name = o.object
		if st, err := os.Stat(name); err == nil && st.IsDir() {
			if !strings.HasSuffix(name, "/") {
				name += "/"
			}
			name += baseName(operand)
		}
	}
	base := baseName(name)
	name = name[:len(name)-len(base)] + stem(base)
	return name + ".gcno", name + ".gcda"
}
