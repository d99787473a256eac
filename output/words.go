package output

import "strconv"

// Plural is a number of things: "1 file", "2 files".
func Plural(n int, thing string) string { return Count(n, thing, thing+"s") }

// Count is Plural for things whose plural is not formed by an s.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
