// Package browsers is what all that serves pages says to browsers, and asks of them.
package browsers

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Guard has browsers keep an answer to its page: policy is its Content-Security-Policy, nothing of it is taken for
// what it is not, seen by pages of others, or kept.
func Guard(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// KnownHost tells whether the name in a request is one of ours: an address, localhost, or one of names. Else a
// page of somebody's site could have its own name lead to us.
func KnownHost(host string, names []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true // no name server was asked for it
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(names, func(own string) bool { return strings.ToLower(own) == name })
}
