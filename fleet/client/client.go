// Package client sends builds and counts to a server of a fleet.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"footfall/fleet/store"
	"footfall/fleet/wire"
)

// A Client talks to a server. It may be used by several goroutines.
type Client struct {
	server string // without a / at its end
	token  string
	http   http.Client
}

// Credentials say to a server who asks, and who the server is to be. Nothing of them is needed.
type Credentials struct {
	Token             string
	CertFile, KeyFile string // the certificate that is shown, and its key (PEM)
	CAFile            string // who has signed the server's; "": one of those that the system trusts
}

// New returns a client of the server at an address such as http://127.0.0.1:7117. The token may be "".
func New(server, token string) (*Client, error) { return NewWith(server, Credentials{Token: token}) }

// NewWith is New for who has certificates, too.
func NewWith(server string, c Credentials) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server %q: an address such as http://127.0.0.1:7117 was expected", server)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = c.tls(u); err != nil {
		return nil, err
	}
	return &Client{
		server: strings.TrimRight(server, "/"),
		token:  c.Token,
		http: http.Client{
			Transport: transport,
			Timeout:   time.Minute,
			// A token is for the server that was named.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// tls is nil where nothing is to be other than usual.
func (c *Credentials) tls(server *url.URL) (*tls.Config, error) {
	if c.CertFile == "" && c.CAFile == "" {
		return nil, nil
	}
	if server.Scheme != "https" {
		return nil, fmt.Errorf("server %s: certificates are for https", server.Redacted())
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CertFile != "" {
		own, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate %s, key %s: %w", c.CertFile, c.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	if c.CAFile != "" {
		var err error
		if config.RootCAs, err = Authorities(c.CAFile); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// Authorities reads a file of certificates (PEM) of those who sign others.
func Authorities(file string) (*x509.CertPool, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s: a certificate in PEM was expected", file)
	}
	return pool, nil
}

// An Error is an answer of a server that it did not take something.
type Error struct {
	Status int // of HTTP
	Text   string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the server answers %d: %s", e.Status, e.Text)
	if e.Status == http.StatusUnauthorized {
		text += " (here in FOOTFALL_TOKEN or --token-file)"
	}
	return text
}

// UnknownUnits tells whether the build is to be told before.
func (e *Error) UnknownUnits() bool { return e.Status == http.StatusConflict }

// Passing tells whether an error is one of now: of the network, or of a server that has too much to do.
func Passing(err error) bool {
	answer := (*Error)(nil)
	if !errors.As(err, &answer) {
		return err != nil
	}
	return answer.Status == http.StatusTooManyRequests || answer.Status >= 500
}

// Persist calls do again and again, until it succeeds, its error is none that passes, or ctx ends.
func Persist(ctx context.Context, do func() error) error {
	wait := 100 * time.Millisecond
	var last error
	for {
		err := do()
		if err == nil || !Passing(err) {
			return err
		}
		if last != nil && ctx.Err() != nil {
			return last // which says more than that there was no more time
		}
		last = err
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// mostAtOnce is how many bytes of what is to be packed are sent together: not too many if they do not become less.
const mostAtOnce = wire.MostPacked - 1<<12

// Tell tells a build and its units: those that the server does not know go with their programs.
func (c *Client) Tell(ctx context.Context, build, release string, units []store.Unit) error {
	_, err := c.TellWith(ctx, build, release, units, nil)
	return err
}

// TellWith is Tell with texts of sources, which the server may not take: why says why it does not take all of them, if so.
func (c *Client) TellWith(ctx context.Context, build, release string, units, texts []store.Unit) (why, err error) {
	a := &wire.Announcement{Build: build, Release: release}
	byHash := make(map[store.Hash]*store.Unit)
	hashes := func(list []store.Unit) (all []store.Hash) {
		for i := range list {
			hash := list[i].Hash()
			byHash[hash] = &list[i]
			all = append(all, hash)
		}
		return all
	}
	a.Units, a.Texts = hashes(units), hashes(texts)
	return c.TellKept(ctx, a, func(hash store.Hash) (store.Unit, error) { return *byHash[hash], nil })
}

// TellKept is TellWith for who has units elsewhere than in memory: load returns those that the server does not know.
func (c *Client) TellKept(ctx context.Context, a *wire.Announcement, load func(store.Hash) (store.Unit, error)) (why, err error) {
	answer, err := c.post(ctx, wire.PathBuilds, a.Encode())
	if err != nil {
		return nil, err
	}
	wanted, err := c.wanted(answer)
	if err != nil {
		return nil, err
	}
	announced := make(map[store.Hash]bool, len(a.Units)+len(a.Texts)) // whether it is a text
	for _, hash := range a.Units {
		announced[hash] = false
	}
	for _, hash := range a.Texts {
		announced[hash] = true
	}
	var units, texts []store.Hash
	for _, hash := range wanted.Units {
		switch text, is := announced[hash]; {
		case !is:
			return nil, fmt.Errorf("answer of %s: it wants a unit that was not announced", c.server)
		case text:
			texts = append(texts, hash)
		default:
			units = append(units, hash)
		}
	}
	if err := c.sendUnits(a.Build, units, load, func(message []byte) error {
		_, err := c.post(ctx, wire.PathUnits, message)
		return err
	}); err != nil || len(a.Texts) == 0 {
		return nil, err
	}
	if !wanted.Texts {
		return errNoTexts, nil
	}
	why = reason(wanted.NoTexts)
	err = c.sendUnits(a.Build, texts, load, func(message []byte) error {
		left, err := c.sendTexts(ctx, message)
		if why == nil {
			why = left
		}
		return err
	})
	return why, err
}

var errNoTexts = errors.New("the server is of an older footfall, which takes none")

// reason is what a server says, nil for nothing.
func reason(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

func (c *Client) wanted(answer []byte) (*wire.Wanted, error) {
	w, err := wire.DecodeWanted(answer)
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", c.server, err)
	}
	return w, nil
}

// sendTexts sends a message with texts. That they are not taken, now or ever, is no error: what is counted goes without them.
func (c *Client) sendTexts(ctx context.Context, message []byte) (why, err error) {
	answer, err := c.post(ctx, wire.PathUnits, message)
	if refusal := (*Error)(nil); errors.As(err, &refusal) && !Passing(err) {
		return refusal, nil
	}
	if err != nil {
		return nil, err
	}
	w, err := c.wanted(answer)
	if err != nil {
		return nil, err
	}
	return reason(w.NoTexts), nil
}

// sendUnits calls send with messages of units.
func (c *Client) sendUnits(build string, hashes []store.Hash, load func(store.Hash) (store.Unit, error), send func(message []byte) error) error {
	var some []store.Unit
	size := 0
	flush := func() error {
		if len(some) == 0 {
			return nil
		}
		err := send(wire.EncodeUnits(build, some))
		some, size = nil, 0
		return err
	}
	for _, hash := range hashes {
		unit, err := load(hash)
		if err != nil {
			return err
		}
		its := len(unit.Program) + len(unit.Name) + 64
		if size+its > mostAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
		some, size = append(some, unit), size+its
	}
	return flush()
}

// Push sends a batch, in parts if it is large. When it returns without an error the server has it on disk.
func (c *Client) Push(ctx context.Context, b *store.Batch) error {
	part := *b
	rest := b.Usage
	for {
		n, counters := 0, 0
		for n < len(rest) {
			counters += rest[n].Counters()
			if n > 0 && counters > wire.MostCounters {
				break
			}
			n++
		}
		part.Usage, rest = rest[:n], rest[n:]
		if _, err := c.post(ctx, wire.PathCounts, wire.EncodeBatch(&part)); err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
	}
}

// mostAnswer is how many bytes of an answer to a message are read: hashes of as many units as a message can have.
const mostAnswer = wire.MostBytes

func (c *Client) post(ctx context.Context, path string, message []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path, bytes.NewReader(wire.Pack(message)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", wire.ContentType)
	r.Header.Set("Content-Encoding", "zstd")
	answer, err := c.do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	body, err := io.ReadAll(io.LimitReader(answer, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", c.server, err)
	}
	return body, nil
}

// Get returns what is at a path below the server's address, which is to be closed.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = query.Encode()
	return c.do(r)
}

// do returns the body of an answer that is none of an error.
func (c *Client) do(r *http.Request) (io.ReadCloser, error) {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	text, _, _ := strings.Cut(strings.TrimPrefix(string(body), "footfall: "), "\n")
	if text == "" {
		text = http.StatusText(answer.StatusCode)
	}
	return nil, &Error{answer.StatusCode, text}
}
