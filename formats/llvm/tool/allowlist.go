package tool

import (
	"fmt"
	"regexp"
	"strings"

	"footfall/input"
)

// readAllowlist reads a file of -name-allowlist, one of LLVM's special case lists: lines allowlist_fun:PATTERN, comments,
// sections [NAME] that are for the programs whose name fits. Patterns are globs; before LLVM 18, and below a first line
// #!special-case-list-v1, regular expressions in which * is .*
func (c *covering) readAllowlist(name string) ([]*regexp.Regexp, error) {
	b, err := input.ReadFile(name, input.Most())
	if err != nil {
		return nil, fmt.Errorf("can't open file '%s': %w", name, withoutPath(err))
	}
	globs := c.version() >= 18 && !strings.HasPrefix(string(b), "#!special-case-list-v1\n")
	compile := func(s string) (*regexp.Regexp, error) {
		if globs {
			s = globRegexp(s)
		} else {
			s = strings.ReplaceAll(s, "*", ".*")
		}
		return regexp.CompilePOSIX("^(" + s + ")$")
	}
	malformed := func(number int, line string) error {
		return fmt.Errorf("error parsing file '%s': malformed line %d: '%s'", name, number, line)
	}
	var list []*regexp.Regexp
	ours, number := true, 0
	for line := range strings.Lines(string(b)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		section, inSection := strings.CutPrefix(line, "[")
		prefix, pattern, _ := strings.Cut(line, ":")
		pattern, _, _ = strings.Cut(pattern, "=")
		if inSection {
			prefix, pattern = "", strings.TrimSuffix(section, "]")
		}
		if pattern == "" || inSection && pattern == section {
			return nil, malformed(number, line)
		}
		re, err := compile(pattern)
		switch {
		case err != nil:
			return nil, malformed(number, line)
		case inSection:
			ours = re.MatchString("llvmcov")
		case ours && prefix == "allowlist_fun":
			list = append(list, re)
		}
	}
	return list, nil
}

// globRegexp is a glob (* ? [a-z] [^a] {a,b} \x) as a regular expression.
func globRegexp(glob string) string {
	var b strings.Builder
	class, braces := false, 0
	for i := 0; i < len(glob); i++ {
		switch ch := glob[i]; {
		case ch == '\\' && i+1 < len(glob):
			i++
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		case class:
			if b.WriteByte(ch); ch == ']' {
				class = false
			}
		case ch == '[' && strings.IndexByte(glob[i:], ']') > 0:
			class = true
			b.WriteByte(ch)
			if i+1 < len(glob) && (glob[i+1] == '!' || glob[i+1] == '^') {
				i++
				b.WriteByte('^')
			}
		case ch == '*':
			b.WriteString(".*")
		case ch == '?':
			b.WriteByte('.')
		case ch == '{':
			braces++
			b.WriteByte('(')
		case ch == ',' && braces > 0:
			b.WriteByte('|')
		case ch == '}' && braces > 0:
			braces--
			b.WriteByte(')')
		default:
			b.WriteString(regexp.QuoteMeta(string(ch)))
		}
	}
	return b.String()
}
