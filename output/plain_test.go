package output

import (
	"strings"
	"testing"
)

// TestPlain has each byte at each place of a name that is plain else.
func TestPlain(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				s := strings.Repeat("~", at) + string([]byte{byte(c)}) + strings.Repeat(" ", length-at-1)
				if got, want := Plain(s), c >= ' ' && c <= '~' && c != '\\'; got != want {
					t.Fatalf("Plain(%q) = %t", s, got)
				}
			}
		}
	}
}
