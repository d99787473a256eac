package getopt

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"footfall/input"
)

// Expand replaces each "@file" by the arguments in the file, where it
// can be read.
func Expand(args []string) ([]string, error) {
	args = slices.Clone(args)
	for i, files := 0, 0; i < len(args); i++ {
		for i < len(args) && strings.HasPrefix(args[i], "@") {
			if files++; files > 2000 {
				return nil, fmt.Errorf("error: too many @-files encountered")
			}
			name := args[i][1:]
			if st, err := os.Stat(name); err == nil && st.IsDir() {
				return nil, fmt.Errorf("error: @-file refers to a directory")
			}
			b, err := input.ReadFile(name, input.MostData)
			if err != nil {
				break
			}
			text, _, _ := strings.Cut(string(b), "\x00")
			args = slices.Replace(args, i, i+1, splitArguments(text)...)
		}
	}
	return args, nil
}

// splitArguments splits text at white space; quotes and backslashes keep it.
func splitArguments(text string) []string {
	var args []string
	var quote byte
	var arg []byte
	inside := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		space := c == ' ' || c >= '\t' && c <= '\r'
		switch {
		case space && quote == 0:
			if inside {
				args, arg, inside = append(args, string(arg)), arg[:0], false
			}
			continue
		case c == '\\':
			if i++; i < len(text) {
				arg = append(arg, text[i])
			}
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		default:
			arg = append(arg, c)
		}
		inside = true
	}
	if inside {
		args = append(args, string(arg))
	}
	return args
}
