package command

import (
	"fmt"
	"strings"
)

// A tomlStatement is a key with its value, or the head of a table.
type tomlStatement struct {
	text string
	line int // the first one
}

// What reads TOML takes a frame of the stack for each bracket, and time and
// memory that grow with the square of the parts of a key. No option has so many.
const (
	mostNested = 16
	mostDotted = 16
)

// tomlStatements cuts TOML into statements: they end where a line does, outside
// of strings and brackets. It knows no more of the syntax; what it does know has
// limits, and an error begins with the line.
func tomlStatements(text string) (list []tomlStatement, err error) {
	line, first, begin := 1, 1, 0
	depth, dots := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line++
			dots = 0
			if depth == 0 {
				list = append(list, tomlStatement{text[begin : i+1], first})
				begin, first = i+1, line
			}
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			n := tomlString(text[i:])
			line += strings.Count(text[i:i+n], "\n")
			i += n - 1
		case '[', '{':
			if depth++; depth > mostNested {
				return nil, fmt.Errorf("%d: brackets within brackets, more than %d deep: no option wants that", line, mostNested)
			}
			dots = 0
		case ']', '}':
			depth, dots = max(depth-1, 0), 0
		case '=', ',':
			dots = 0
		case '.':
			if dots++; dots >= mostDotted {
				return nil, fmt.Errorf("%d: a key of more than %d parts: no option has so many", line, mostDotted)
			}
		}
	}
	return append(list, tomlStatement{text[begin:], first}), nil
}

// tomlString returns the length of the string that begins the text, to the end of
// the line or of the text where it is not closed.
func tomlString(text string) int {
	quote := text[0]
	if n := len(text) - len(strings.TrimLeft(text, text[:1])); n == 2 {
		return 2 // an empty one
	} else if n >= 3 {
		return tomlLong(text, quote)
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\n':
			return i
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// tomlLong is tomlString for one of several lines, which three quotes end: it may
// itself end with two more.
func tomlLong(text string, quote byte) int {
	for i, run := 3, 0; i < len(text); i++ {
		switch {
		case text[i] == quote:
			if run++; run == 3 {
				for n := 0; n < 2 && i+1 < len(text) && text[i+1] == quote; n++ {
					i++
				}
				return i + 1
			}
			continue
		case text[i] == '\\' && quote == '"':
			i++
		}
		run = 0
	}
	return len(text)
}
