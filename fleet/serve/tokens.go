package serve

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"footfall/fleet/store"
)

// A role is what a token allows.
type role string

const (
	read  role = "read"  // pages and answers
	push  role = "push"  // builds and counts
	admin role = "admin" // both
)

// A Token lets somebody in.
type Token struct {
	Name    string // the owner of instances
	Project string
	Role    role

	tokens float64 // of a bucket: requests that it may make now
	filled time.Time
}

// Tokens are those of a server. Only their hashes are kept.
type Tokens struct {
	known     map[[sha256.Size]byte]*Token
	certified map[string]*Token // by the common name of a client's certificate
}

// certificatePrefix is what stands before such a name in place of a token.
const certificatePrefix = "cert:"

// NeedsCertificates tells whether some are of clients with certificates.
func (t *Tokens) NeedsCertificates() bool { return len(t.certified) > 0 }

// leastToken is how many characters a token has at least: none that people make up.
const leastToken = 20

// ReadTokens reads tokens, one on a line: PROJECT ROLE NAME TOKEN, where cert:COMMONNAME is who has a certificate of that name. What
// begins with # is left out.
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{known: make(map[[sha256.Size]byte]*Token), certified: make(map[string]*Token)}
	names := make(map[string]bool)
	scanner := bufio.NewScanner(r)
	for n := 1; scanner.Scan(); n++ {
		fields := strings.Fields(scanner.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := t.add(fields, names); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(t.known)+len(t.certified) == 0 {
		return nil, errors.New("there is no token; a line has PROJECT ROLE NAME TOKEN")
	}
	return t, nil
}

func (t *Tokens) add(fields []string, names map[string]bool) error {
	if len(fields) != 4 {
		return fmt.Errorf("%d words, where PROJECT ROLE NAME TOKEN were expected", len(fields))
	}
	token := &Token{Project: fields[0], Role: role(fields[1]), Name: fields[2]}
	if err := store.CheckProject(token.Project); err != nil {
		return err
	}
	switch token.Role {
	case read, push, admin:
	default:
		return fmt.Errorf("role %q: it is read, push or admin", fields[1])
	}
	if names[token.Project+" "+token.Name] {
		return fmt.Errorf("project %s has another token of the name %s", token.Project, token.Name)
	}
	names[token.Project+" "+token.Name] = true
	if name, is := strings.CutPrefix(fields[3], certificatePrefix); is {
		if name == "" || t.certified[name] != nil {
			return fmt.Errorf("%s: a name of a certificate was expected that no other line has", fields[3])
		}
		t.certified[name] = token
		return nil
	}
	if len(fields[3]) < leastToken {
		return fmt.Errorf("the token of %s has %d characters, and is to have %d at least, such as of: openssl rand -hex 16", token.Name, len(fields[3]), leastToken)
	}
	key := sha256.Sum256([]byte(fields[3]))
	if t.known[key] != nil {
		return fmt.Errorf("%s and %s have the same token", t.known[key].Name, token.Name)
	}
	t.known[key] = token
	return nil
}

// of is the token of a request, nil for none that is known: that which it has, or of the certificate of that name. Tokens are looked up by
// their hashes, so the time that it takes tells nothing of them.
func (t *Tokens) of(r *http.Request, certificate string) *Token {
	text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, text, _ = r.BasicAuth()
	}
	if who := t.known[sha256.Sum256([]byte(text))]; who != nil || certificate == "" {
		return who
	}
	return t.certified[certificate]
}

// certified is the common name of the certificate that the sender of a request has shown, "" if there was none. It was verified when
// the connection was made. One without is known by its first host name, or its number.
func certified(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return ""
	}
	c := r.TLS.VerifiedChains[0][0]
	return cmp.Or(c.Subject.CommonName, strings.Join(c.DNSNames[:min(1, len(c.DNSNames))], ""), "serial:"+c.SerialNumber.String())
}

// clients are those who have shown certificates where there are no tokens.
type clients struct {
	mu    sync.Mutex
	known map[string]*Token
}

// of returns who has a certificate of that name.
func (c *clients) of(name string) *Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[string]*Token)
	}
	if c.known[name] == nil {
		c.known[name] = &Token{Name: name, Project: store.DefaultProject, Role: admin}
	}
	return c.known[name]
}

// limits says how often tokens may be used.
type limits struct {
	rate float64
	mu   sync.Mutex
	none Token // of all who have none
}

// burst is for how many seconds a token may use up what it has not used.
const burst = 10

// allow takes a request out of the bucket of a token.
func (l *limits) allow(t *Token, now time.Time) bool {
	if l.rate <= 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Name == "" {
		t = &l.none
	}
	if t.filled.IsZero() {
		t.tokens, t.filled = burst*l.rate, now
	}
	t.tokens = min(burst*l.rate, t.tokens+now.Sub(t.filled).Seconds()*l.rate)
	t.filled = now
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}
