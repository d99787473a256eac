package output

import (
	"strings"
	"testing"
)

// TestPagePolicy has the hashes that browsers compute of elements.
func TestPagePolicy(t *testing.T) {
	// echo -n "alert('Hello, world.');" | openssl sha256 -binary | openssl base64, as in the CSP specification
	const hello = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
	p := PagePolicy([]byte("alert('Hello, world.');"), nil)
	if !strings.Contains(p, "script-src "+hello+";") || !strings.HasPrefix(p, "default-src 'none';") {
		t.Error(p)
	}
}
