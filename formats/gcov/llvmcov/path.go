package llvmcov

import "strings"

// Names of files as LLVM takes them apart. They differ from path/filepath in
// corners: "//net/x" has a root of its own, and "a/" ends in a name of ".".

// llvmRoot is the length of the root of a path: 1 for "/x", 0 for "x", that of
// "//net/" for "//net/x".
func llvmRoot(p string) int {
	if n := llvmNet(p); n > 0 {
		if n < len(p) {
			n++
		}
		return n
	}
	if strings.HasPrefix(p, "/") {
		return 1
	}
	return 0
}

// llvmNet is the length of "//net" at the start of a path, else 0.
func llvmNet(p string) int {
	if len(p) < 3 || p[:2] != "//" || p[2] == '/' {
		return 0
	}
	if i := strings.IndexByte(p[2:], '/'); i >= 0 {
		return i + 2
	}
	return len(p)
}

// llvmRootSlash is where the slash of the root stands, -1 without one.
func llvmRootSlash(p string) int {
	if n := llvmNet(p); n > 0 {
		if n < len(p) {
			return n
		}
		return -1
	}
	if strings.HasPrefix(p, "/") {
		return 0
	}
	return -1
}

// llvmNameStart is where the last component starts; for a path that ends in a
// slash, at that slash.
func llvmNameStart(p string) int {
	if p == "" {
		return 0
	}
	if p[len(p)-1] == '/' {
		return len(p) - 1
	}
	i := strings.LastIndexByte(p, '/')
	if i < 0 || (i == 1 && p[0] == '/') {
		return 0
	}
	return i + 1
}

// llvmName is the last component of a path.
func llvmName(p string) string {
	if p == "" {
		return ""
	}
	if p[len(p)-1] != '/' {
		return p[llvmNameStart(p):]
	}
	if end := len(strings.TrimRight(p, "/")); end == 0 || len(p)-1 == llvmRootSlash(p) {
		return "/"
	}
	return "."
}

func llvmStem(p string) string {
	name := llvmName(p)
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 || name == "." || name == ".." {
		return name
	}
	return name[:dot]
}

// llvmParent is the path without its last component.
func llvmParent(p string) string {
	if p == "" {
		return ""
	}
	end := llvmNameStart(p)
	slash := p[end] == '/'
	root := llvmRootSlash(p)
	for end > 0 && end > root && p[end-1] == '/' {
		end--
	}
	if end == root && !slash {
		return p[:root+1]
	}
	return p[:end]
}

// llvmJoin appends a component to a path.
func llvmJoin(p, name string) string {
	if strings.HasSuffix(p, "/") {
		return p + strings.TrimLeft(name, "/")
	}
	if p != "" && !strings.HasPrefix(name, "/") {
		p += "/"
	}
	return p + name
}

// llvmClean removes the components "." and x/.. and doubled slashes.
func llvmClean(p string) string {
	root := p[:llvmRoot(p)]
	var parts []string
	for _, c := range strings.Split(p[len(root):], "/") {
		switch {
		case c == "" || c == ".":
		case c == ".." && len(parts) > 0 && parts[len(parts)-1] != "..":
			parts = parts[:len(parts)-1]
		case c == ".." && root != "":
		default:
			parts = append(parts, c)
		}
	}
	return root + strings.Join(parts, "/")
}

// llvmMangle makes a source's name the name of its listing: the last
// component, or with all components '/' becomes '#', ".." becomes '^', and "."
// goes.
func llvmMangle(p string, all bool) string {
	if !all {
		return llvmName(p)
	}
	var b strings.Builder
	for {
		slash := strings.IndexByte(p, '/')
		if slash < 0 {
			b.WriteString(p)
			return b.String()
		}
		switch c := p[:slash]; c {
		case ".":
		case "..":
			b.WriteString("^#")
		default:
			b.WriteString(c)
			b.WriteByte('#')
		}
		p = p[slash+1:]
	}
}
