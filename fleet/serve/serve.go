// Package serve is the server of a fleet: it takes builds and batches of package wire, keeps them in
// stores, one for each project, and mounts the pages that answer questions.
//
// # Who may do what
//
// Who has a token may do what its role allows, in its project. Without tokens everybody who reaches the server
// may do everything, which is for 127.0.0.1. Whoever sends the first batch of an instance owns it.
//
// # What is promised
//
// What is answered with success is on disk. All else may be sent again, as often as one likes.
package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"footfall/fleet/store"
	"footfall/fleet/units"
	"footfall/fleet/wire"
	"footfall/output/browsers"
)

// Options say how to serve.
type Options struct {
	Stores store.Stores
	Tokens *Tokens // nil: everybody may do everything
	// Pages makes what answers questions about a project, below "/"; nil: nothing does.
	Pages func(project string, s store.Reader) http.Handler
	// Names are those by which browsers may call this server, beside addresses and localhost; they
	// matter where there are no tokens.
	Names []string
	// Windows older than KeepWindows are added up to days, and days older than KeepDays are forgotten, which is at
	// least as long. 0: never.
	KeepWindows, KeepDays time.Duration
	// MostTexts is how many bytes of texts of sources are kept of a project, as they are packed: with more none are taken.
	MostTexts int64
	// CertFile and KeyFile are for TLS; "": plain HTTP.
	CertFile, KeyFile string
	// Clients are those who sign certificates of clients; nil: none are asked for. Without Tokens who has one may do everything, and
	// nobody else anything; with them who has one that they name may do what they say, and others need a token.
	Clients *x509.CertPool
	// Rate is how many requests a second one token may make, in the long run; 0: as many as it likes.
	Rate float64
	Log  *slog.Logger
}

// A server is what takes requests.
type server struct {
	options Options
	working chan struct{} // what is being read has its place
	waiting *room         // that of what waits to be written
	limits  limits
	clients clients

	mu       sync.Mutex
	projects map[string]*project
}

// A project has a store of its own.
type project struct {
	store store.Store
	texts texts
	pages http.Handler // nil: none
}

// together is how many messages are read at a time: each may take some 30 MB. waitingBytes is how much of those that have been read
// waits to be written, which a store does with many at once: it has them once more then.
const (
	together     = 12
	waitingBytes = 3 * wire.MostBytes
)

// Serve answers who connects to l until ctx ends, and closes l. What was begun is then brought to an end, for up to 10
// seconds.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s := &server{options: o, working: make(chan struct{}, together), waiting: newRoom(waitingBytes), projects: make(map[string]*project), limits: limits{rate: o.Rate}}
	defer s.close()
	if err := s.openAll(ctx); err != nil {
		_ = l.Close()
		return err
	}
	h := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 14,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	if o.Clients != nil {
		h.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ClientCAs: o.Clients, ClientAuth: tls.RequireAndVerifyClientCert}
		if o.Tokens != nil {
			h.TLSConfig.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	background.Go(func() { s.expireNowAndThen(ctx) })
	ended := make(chan error, 1)
	go func() {
		if o.CertFile != "" {
			ended <- h.ServeTLS(l, o.CertFile, o.KeyFile)
		} else {
			ended <- h.Serve(l)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.Shutdown(patience); err != nil {
		_ = h.Close()
	}
	return nil
}

// openAll opens the stores that are there, and the default one.
func (s *server) openAll(ctx context.Context) error {
	names, err := s.options.Stores.Projects(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.project(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// project returns a project, which is made if it is not there.
func (s *server) project(ctx context.Context, name string) (*project, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.projects[name]; p != nil {
		return p, nil
	}
	opened, err := s.options.Stores.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &project{store: opened, texts: texts{most: s.options.MostTexts}}
	if s.options.Pages != nil {
		p.pages = s.options.Pages(name, opened)
	}
	s.projects[name] = p
	return p, nil
}

func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.projects {
		if err := p.store.Close(); err != nil {
			s.options.Log.Error("store", "project", name, "error", err)
		}
	}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+wire.PathBuilds, s.taking(s.takeBuild))
	mux.Handle("POST "+wire.PathUnits, s.taking(s.takeUnits))
	mux.Handle("POST "+wire.PathCounts, s.taking(s.takeCounts))
	mux.HandleFunc("/", s.showPages)
	return mux
}

// policy is the Content-Security-Policy of all answers.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// admit tells who sends a request and may do what role says; else it has answered.
func (s *server) admit(w http.ResponseWriter, r *http.Request, needed role) (who *Token, ok bool) {
	h := w.Header()
	browsers.Guard(h, policy)
	switch name := certified(r); {
	case s.options.Tokens != nil:
		if who = s.options.Tokens.of(r, name); who == nil {
			h.Set("WWW-Authenticate", `Basic realm="footfall", charset="UTF-8"`)
			http.Error(w, "footfall: a token is needed: as a bearer's, or as the password of any user", http.StatusUnauthorized)
			return nil, false
		}
	case name != "":
		who = s.clients.of(name)
	case !browsers.KnownHost(r.Host, s.options.Names):
		http.Error(w, "footfall: the request is for another host", http.StatusMisdirectedRequest)
		return nil, false
	default:
		who = &Token{Project: store.DefaultProject, Role: admin}
	}
	if who.Role != admin && who.Role != needed {
		http.Error(w, fmt.Sprintf("footfall: the token %s is one to %s, not to %s", who.Name, who.Role, needed), http.StatusForbidden)
		return nil, false
	}
	if !s.limits.allow(who, time.Now()) {
		h.Set("Retry-After", "1")
		http.Error(w, "footfall: too many requests: try again in a second", http.StatusTooManyRequests)
		return nil, false
	}
	return who, true
}

func (s *server) showPages(w http.ResponseWriter, r *http.Request) {
	who, ok := s.admit(w, r, read)
	if !ok {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "footfall: pages are only read", http.StatusMethodNotAllowed)
		return
	}
	p, err := s.project(r.Context(), who.Project)
	switch {
	case err != nil:
		s.fail(w, r, err)
	case p.pages == nil:
		http.NotFound(w, r)
	default:
		p.pages.ServeHTTP(w, r)
	}
}

// A request is a message of somebody. read says that others may be read, as it is when the request has been answered.
type request struct {
	*project
	who     *Token
	message []byte
	read    func()
}

// taking is what takes a message. Browsers do not send such things for pages of others, since the content
// type is not one of forms.
func (s *server) taking(take func(ctx context.Context, r *request) (answer []byte, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.admit(w, r, push)
		if !ok {
			return
		}
		if r.Header.Get("Content-Type") != wire.ContentType || r.Header.Get("Content-Encoding") != "zstd" {
			http.Error(w, "footfall: "+wire.ContentType+" packed by zstd was expected", http.StatusUnsupportedMediaType)
			return
		}
		select {
		case s.working <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		read := sync.OnceFunc(func() { <-s.working })
		defer read()
		message, err := wire.Unpack(r.Body)
		if err == nil {
			var p *project
			if p, err = s.project(r.Context(), who.Project); err == nil {
				message, err = take(r.Context(), &request{p, who, message, read})
			}
		} else if !errors.Is(err, wire.ErrTooLarge) {
			err = wrong{err}
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if message != nil {
			w.Header().Set("Content-Type", wire.ContentType)
			_, _ = w.Write(message)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// wrong is an error of who sends.
type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

// fail answers with an error.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	bad := wrong{}
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, store.ErrUnknownBuild), errors.Is(err, store.ErrUnknownUnit):
		status = http.StatusConflict // the build is to be told first
	case errors.Is(err, store.ErrClosed):
		status = http.StatusGone
	case errors.Is(err, store.ErrOwner):
		status = http.StatusForbidden
	case errors.Is(err, store.ErrLength), errors.As(err, &bad):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, store.ErrClosing), errors.Is(err, store.ErrAway), r.Context().Err() != nil:
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusInternalServerError {
		s.options.Log.Error("request", "path", r.URL.Path, "error", err)
		err = errors.New("the server could not keep it; its log says why")
	}
	http.Error(w, "footfall: "+strings.ReplaceAll(err.Error(), "\n", "; "), status)
}

func (s *server) takeBuild(ctx context.Context, r *request) ([]byte, error) {
	a, err := wire.DecodeAnnouncement(r.message)
	if err == nil && a.Build == "" {
		err = errors.New("the build has no name")
	}
	if err != nil {
		return nil, wrong{err}
	}
	w := wire.Wanted{Texts: true}
	if w.Units, err = r.store.Announce(ctx, a.Build, a.Release, append(a.Units, a.Texts...)); err != nil {
		return nil, err
	}
	r.texts.want(&w, a.Texts)
	return w.Encode(), nil
}

func (s *server) takeUnits(ctx context.Context, r *request) (answer []byte, err error) {
	build, list, err := wire.DecodeUnits(r.message)
	if err == nil && build == "" {
		err = errors.New("the build has no name")
	}
	for i := range list {
		if err == nil {
			err = units.Check(&list[i])
		}
	}
	if err != nil {
		return nil, wrong{err}
	}
	list, why, err := r.texts.admit(ctx, r.store, list)
	if err != nil {
		return nil, err
	}
	if why != "" {
		answer = (&wire.Wanted{Texts: true, NoTexts: why}).Encode()
	}
	return answer, r.store.PutBuild(ctx, &store.Build{ID: build, Units: list})
}

func (s *server) takeCounts(ctx context.Context, r *request) ([]byte, error) {
	b, err := wire.DecodeBatch(r.message)
	if err == nil {
		err = checkTimes(b, time.Now())
	}
	if err != nil {
		return nil, wrong{err}
	}
	b.Instance.Owner = r.who.Name
	leave := s.waiting.enter(len(r.message)) // until then nobody else is read
	defer leave()
	r.read()
	return nil, r.store.Push(ctx, b)
}

// A room is for so many bytes.
type room struct {
	entering sync.Mutex
	places   chan struct{} // of placeBytes each
}

const placeBytes = 1 << 14

func newRoom(bytes int) *room { return &room{places: make(chan struct{}, bytes/placeBytes)} }

// enter waits until there is room for so many bytes, which are no more than there are in all.
func (r *room) enter(bytes int) (leave func()) {
	n := bytes/placeBytes + 1
	r.entering.Lock() // of two that each have some places both would wait for more
	defer r.entering.Unlock()
	for range n {
		r.places <- struct{}{}
	}
	return func() {
		for range n {
			<-r.places
		}
	}
}

// ahead is how far the clock of who sends may be before ours.
const ahead = 10 * time.Minute

// checkTimes refuses windows that will be: they would be the last ones in which something was seen.
func checkTimes(b *store.Batch, now time.Time) error {
	if b.Window.After(now.Add(ahead)) || b.Window.Unix() <= 0 {
		return fmt.Errorf("its window begins at %v, and here it is %v: set the clocks", b.Window.UTC(), now.UTC().Truncate(time.Second))
	}
	return nil
}

// expireNowAndThen adds up and forgets what is old, at once and each hour.
func (s *server) expireNowAndThen(ctx context.Context) {
	for ctx.Err() == nil {
		s.expire(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-time.After(time.Hour):
		}
	}
}

func (s *server) expire(ctx context.Context, now time.Time) {
	rolled := now.Add(-s.options.KeepWindows).UTC().Truncate(24 * time.Hour) // whole days
	forgotten := time.Unix(0, 0)
	if s.options.KeepDays > 0 {
		forgotten = now.Add(-s.options.KeepDays)
	}
	s.mu.Lock()
	all := make(map[string]*project)
	for name, p := range s.projects {
		all[name] = p
	}
	s.mu.Unlock()
	for name, p := range all {
		p.texts.again() // others may have forgotten some, or brought more
		if s.options.KeepWindows == 0 {
			continue
		}
		if err := p.store.Expire(ctx, rolled, forgotten); err != nil && !errors.Is(err, store.ErrClosing) && ctx.Err() == nil {
			s.options.Log.Error("expire", "project", name, "error", err)
		}
		p.texts.again()
	}
}
