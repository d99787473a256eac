package web

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"

	"footfall/output/browsers"
)

// This file says who may ask what.
//
//   - Who asks must have the key, in the address that footfall prints or in the cookie that
//     this sets: other users of a machine can connect to 127.0.0.1, too, and pages show sources.
//   - The name in the request must be an address, localhost or one that was told. Else a page of
//     somebody's site could have its own name lead to us, and its script read what we answer (DNS
//     rebinding).
//   - What does something is POST, comes from our own pages, and has a token that is in these.

// policy is the Content-Security-Policy of all answers: pages have our scripts and styles, ask us
// only, and nobody shows them within others. Within a page it is the same but for the last.
const (
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'"
	policy     = pagePolicy + "; frame-ancestors 'none'"
)

// mostForm is how many bytes a form may have.
const mostForm = 1 << 12

// guarded serves those who may ask.
func (s *server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		browsers.Guard(w.Header(), policy)
		switch {
		case !browsers.KnownHost(r.Host, s.options.Names):
			http.Error(w, "footfall: the request is for another host; open the address that footfall printed", http.StatusMisdirectedRequest)
		case r.URL.Path == "/" && r.Method == http.MethodGet && same(r.URL.Query().Get("key"), s.key):
			// The key is not to be in the address that people copy.
			if s.browser(r) == "" {
				http.SetCookie(w, &http.Cookie{Name: s.cookie(r), Value: s.key + "." + rand.Text(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
			}
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case !s.hasKey(r):
			http.Error(w, "footfall: this needs a key; open the address that footfall printed, which has it", http.StatusUnauthorized)
		case r.Method == http.MethodPost && !s.ours(w, r):
			http.Error(w, "footfall: this did not come from a page of this server; load the page again", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cookie is the name of the cookie. Cookies of a host are those of all its ports, and several of
// us may serve there.
func (s *server) cookie(r *http.Request) string {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, port, err := net.SplitHostPort(local.String()); err == nil {
			return "footfall-" + port
		}
	}
	return "footfall"
}

func (s *server) hasKey(r *http.Request) bool {
	return same(r.URL.Query().Get("key"), s.key) || s.browser(r) != ""
}

// browser is what tells a browser from others, in its cookie behind the key; "" is one that has no
// cookie, or another key.
func (s *server) browser(r *http.Request) string {
	cookie, err := r.Cookie(s.cookie(r))
	if err != nil {
		return ""
	}
	key, browser, _ := strings.Cut(cookie.Value, ".")
	if !same(key, s.key) {
		return ""
	}
	return browser
}

// ours tells whether a form comes from one of our pages.
func (s *server) ours(w http.ResponseWriter, r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return false
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	return same(r.PostFormValue("token"), s.token)
}
