package output

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// PagePolicy returns a Content-Security-Policy for a page of HTML that has its script and
// style within: it runs these, as the bytes of the elements are, and nothing else that a
// name or a source might bring into it, and fetches nothing.
func PagePolicy(script, style []byte) string {
	hash := func(b []byte) string {
		sum := sha256.Sum256(b)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'", hash(script), hash(style))
}
