package source

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// A glob chooses files by name:
//
//	?       one character of a name, [a-z] one of these, [!a-z] one of others
//	*       any part of a name
//	**      any part of a path
//	{a,b}   either
//
// With a slash inside it is matched with the whole path, both the absolute one
// and the one from the root. Without, it may be any part of the path from the
// root that is a file's name, or, if it is a plain word or ends in a slash, a
// directory's. A plain path may be a directory as well.
type glob struct {
	re *regexp.Regexp
	// anywhere tells that the pattern is not tied to the start of the path. It
	// must not match the directories above the root then, or the report would
	// depend on where the project lies.
	anywhere bool
}

// newGlob compiles pattern; one that begins with "./" or "../" is seen from
// dir.
func newGlob(pattern, dir string) (glob, error) {
	text, isDir := strings.CutSuffix(pattern, "/")
	if text == "" {
		return glob{}, fmt.Errorf("pattern %q names no file", pattern)
	}
	if text == "." || text == ".." || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") {
		text = filepath.Join(dir, text)
	}
	re, err := globRegexp(text)
	if err != nil {
		return glob{}, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	g := glob{anywhere: !strings.Contains(text, "/")}
	if g.anywhere {
		re = "(.*/)?" + re
	}
	switch plain := !strings.ContainsAny(text, globSpecial); {
	case isDir:
		re += "/.*"
	case plain:
		re += "(/.*)?"
	}
	if g.re, err = regexp.Compile(`\A(?s:` + re + `)\z`); err != nil {
		return glob{}, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return g, nil
}

// match tells whether the pattern fits a file with this absolute path that is
// shown by a name from the root.
func (g glob) match(path, shown string) bool {
	return g.re.MatchString(shown) || !g.anywhere && g.re.MatchString(path)
}

func matchAny(globs []glob, path, shown string) bool {
	for _, g := range globs {
		if g.match(path, shown) {
			return true
		}
	}
	return false
}

const globSpecial = `*?[{\`

// globRegexp returns the regular expression of a pattern.
func globRegexp(p string) (string, error) {
	var re strings.Builder
	depth := 0 // of braces
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '*':
			switch {
			case strings.HasPrefix(p[i:], "**/") && (i == 0 || p[i-1] == '/'):
				re.WriteString("(.*/)?")
				i += 2
			case strings.HasPrefix(p[i:], "**"):
				re.WriteString(".*")
				i++
			default:
				re.WriteString("[^/]*")
			}
		case '?':
			re.WriteString("[^/]")
		case '[':
			n := strings.IndexByte(p[i+1:], ']')
			if n <= 0 {
				return "", errors.New("a [ without its ]")
			}
			set := p[i+1 : i+1+n]
			re.WriteByte('[')
			if set[0] == '!' || set[0] == '^' {
				re.WriteByte('^')
				set = set[1:]
			}
			re.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(set))
			re.WriteByte(']')
			i += 1 + n
		case '{':
			depth++
			re.WriteByte('(')
		case '}':
			if depth == 0 {
				re.WriteString(`\}`)
				break
			}
			depth--
			re.WriteByte(')')
		case ',':
			if depth > 0 {
				c = '|'
			}
			re.WriteByte(c)
		case '\\':
			if i++; i == len(p) {
				return "", errors.New(`nothing after the last \`)
			}
			re.WriteString(regexp.QuoteMeta(p[i : i+1]))
		default:
			re.WriteString(regexp.QuoteMeta(p[i : i+1]))
		}
	}
	if depth > 0 {
		return "", errors.New("a { without its }")
	}
	return re.String(), nil
}

// A NamePattern chooses sources by name, as --include does.
type NamePattern struct {
	text string
	glob glob
}

// NewNamePattern compiles a pattern; one that begins with "./" or "../" is seen from the working directory.
func NewNamePattern(text string) (NamePattern, error) {
	here := ""
	if strings.HasPrefix(text, ".") {
		var err error
		if here, err = filepath.Abs("."); err != nil {
			return NamePattern{}, err
		}
	}
	g, err := newGlob(text, here)
	return NamePattern{text, g}, err
}

// Match tells whether the pattern fits a file of this name in a set, which is shown by another.
func (p NamePattern) Match(name, shown string) bool { return p.glob.match(name, shown) }

func (p NamePattern) String() string { return p.text }
