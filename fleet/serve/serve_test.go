package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/fleet/client"
	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
	"footfall/fleet/store/sqlite"
	"footfall/fleet/units"
	"footfall/fleet/wire"
)

// start serves, and returns the address and what ends it.
func start(t *testing.T, o Options) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, o) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

func newClient(t *testing.T, address, token string) *client.Client {
	t.Helper()
	c, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// aFile is a source file, and its counters.
func aFile(name string, counts ...int64) units.Counted {
	f := &coverage.File{Name: name}
	for i, n := range counts {
		f.Lines = append(f.Lines, coverage.Line{Number: int32(i) + 1, Count: n})
	}
	return units.Of(f)
}

func batch(c units.Counted, boot string) *store.Batch {
	return &store.Batch{
		Build: "b", Instance: store.Instance{Boot: boot}, Window: time.Now().Truncate(time.Minute), Seen: time.Now(), Once: true,
		Usage: []store.Usage{{Unit: c.Unit.Hash(), Hits: c.Hits}},
	}
}

// status is that of an answer, 0 for none.
func status(err error) int {
	answer := (*client.Error)(nil)
	if errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}

// sums are the counts of lines of a store, by file.
func sums(t *testing.T, dir string) map[string][]int64 {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sum units.Sum
	if err := s.Totals(t.Context(), &store.Query{}, true, sum.Add); err != nil {
		t.Fatal(err)
	}
	set, _ := sum.Set()
	all := make(map[string][]int64)
	for _, f := range set.All() {
		for _, l := range f.Lines {
			all[f.Name] = append(all[f.Name], l.Count)
		}
	}
	return all
}

// TestServe tells, pushes, pushes again, and looks at what is there after the end.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	address, stop := start(t, Options{Stores: sqlite.Dir(dir)})
	c := newClient(t, address, "")
	ctx := t.Context()
	a, b, none := aFile("a.c", 1, 0, 2), aFile("b.c", 7), aFile("none.c", 0)
	if err := c.Push(ctx, batch(a, "1")); status(err) != http.StatusConflict {
		t.Errorf("an unknown build: %v", err)
	}
	if err := c.Tell(ctx, "b", "1.0", []store.Unit{a.Unit, none.Unit}); err != nil {
		t.Fatal(err)
	}
	if err := c.Push(ctx, batch(b, "1")); status(err) != http.StatusConflict {
		t.Errorf("an unknown unit: %v", err)
	}
	if err := c.Tell(ctx, "b", "1.0", []store.Unit{a.Unit, b.Unit}); err != nil {
		t.Fatal(err)
	}
	for _, push := range []*store.Batch{batch(a, "1"), batch(a, "1"), batch(a, "2"), batch(b, "1")} {
		if err := c.Push(ctx, push); err != nil {
			t.Error(err)
		}
	}
	later := batch(a, "1")
	later.Window = later.Window.Add(2 * time.Minute)
	if err := c.Push(ctx, later); err != nil { // again, at another time
		t.Error(err)
	}
	future := batch(a, "3")
	future.Window = future.Window.Add(time.Hour)
	if err := c.Push(ctx, future); status(err) != http.StatusUnprocessableEntity {
		t.Errorf("a window that will be: %v", err)
	}
	long := batch(a, "4")
	long.Usage[0].Hits = append(long.Usage[0].Hits, 1)
	if err := c.Push(ctx, long); status(err) != http.StatusUnprocessableEntity {
		t.Errorf("a counter too many: %v", err)
	}
	if err := c.Tell(ctx, "b", "1.0", []store.Unit{{Kind: "lines", Name: "x.c", Counters: 3, Program: []byte("no program")}}); status(err) != http.StatusUnprocessableEntity {
		t.Errorf("a unit that is none: %v", err)
	}
	if err := c.Tell(ctx, "b", "1.0", []store.Unit{{Kind: "new", Name: "x.c"}}); status(err) != http.StatusUnprocessableEntity {
		t.Errorf("a unit of an unknown kind: %v", err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := sqlite.Dir(dir).Backup(ctx, copied); err != nil {
		t.Fatal(err)
	}
	stop()
	want := map[string][]int64{"a.c": {2, 0, 4}, "b.c": {7}, "none.c": {0}}
	if diff := cmp.Diff(want, sums(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, sums(t, copied)); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
}

const someTokens = `# PROJECT ROLE NAME TOKEN
web push ci    aaaaaaaaaaaaaaaaaaaaaaaa
web push other bbbbbbbbbbbbbbbbbbbbbbbb
web read eyes  cccccccccccccccccccccccc
db  admin ops  dddddddddddddddddddddddd
`

// TestTokens lets nobody do what is not theirs.
func TestTokens(t *testing.T) {
	tokens, err := ReadTokens(strings.NewReader(someTokens))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pages := func(project string, _ store.Reader) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pages of "+project) })
	}
	address, stop := start(t, Options{Stores: sqlite.Dir(dir), Tokens: tokens, Pages: pages})
	ctx := t.Context()
	a := aFile("a.c", 1)
	ci, other, eyes, ops := newClient(t, address, "aaaaaaaaaaaaaaaaaaaaaaaa"), newClient(t, address, "bbbbbbbbbbbbbbbbbbbbbbbb"),
		newClient(t, address, "cccccccccccccccccccccccc"), newClient(t, address, "dddddddddddddddddddddddd")
	for _, c := range []struct {
		name string
		c    *client.Client
		want int
	}{{"nobody", newClient(t, address, ""), 401}, {"a stranger", newClient(t, address, "eeeeeeeeeeeeeeeeeeeeeeee"), 401}, {"a reader", eyes, 403}, {"a pusher", ci, 0}, {"an admin", ops, 0}} {
		if err := c.c.Tell(ctx, "b", "", []store.Unit{a.Unit}); status(err) != c.want || c.want == 0 && err != nil {
			t.Errorf("%s: %v, want %d", c.name, err, c.want)
		}
	}
	if err := errors.Join(ci.Push(ctx, batch(a, "1")), ops.Push(ctx, batch(a, "1")), ops.Push(ctx, batch(a, "2"))); err != nil {
		t.Error(err)
	}
	if err := other.Push(ctx, batch(a, "1")); status(err) != http.StatusForbidden {
		t.Errorf("the instance of another: %v", err)
	}
	get := func(token string) (int, string) {
		r, _ := http.NewRequest(http.MethodGet, address+"/any", nil)
		r.SetBasicAuth("me", token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.Header.Get("Content-Security-Policy") == "" {
			t.Error("an answer has no policy")
		}
		b, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(b)
	}
	if code, text := get("cccccccccccccccccccccccc"); code != 200 || text != "pages of web" {
		t.Errorf("a reader sees %d %s", code, text)
	}
	if code, _ := get("aaaaaaaaaaaaaaaaaaaaaaaa"); code != 403 {
		t.Errorf("a pusher sees %d", code)
	}
	if code, _ := get(""); code != 401 {
		t.Errorf("nobody sees %d", code)
	}
	stop()
	if diff := cmp.Diff(map[string][]int64{"a.c": {1}}, sums(t, filepath.Join(dir, "projects", "web"))); diff != "" {
		t.Errorf("web (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]int64{"a.c": {2}}, sums(t, filepath.Join(dir, "projects", "db"))); diff != "" {
		t.Errorf("db (-want +got):\n%s", diff)
	}
}

// TestAway tells who sends to try again later where the database does not answer.
func TestAway(t *testing.T) {
	db := fixtures.NewClickHouse(t)
	stores, err := storesOf("clickhouse:" + db.Address)
	if err != nil {
		t.Fatal(err)
	}
	address, _ := start(t, Options{Stores: stores})
	c, a := newClient(t, address, ""), aFile("a.c", 1)
	for _, text := range []store.Unit{
		{Kind: store.Text, Name: "nul.c", Program: []byte("\x01a\x00")},
		{Kind: store.Text, Name: "large.c", Program: bytes.Repeat([]byte("\x01"), units.MostText+2)},
		{Kind: store.Text, Name: "counting.c", Counters: 1, Program: []byte("\x01a")},
	} {
		if err := c.Tell(t.Context(), "texts", "", []store.Unit{text}); status(err) != 422 {
			t.Errorf("the text of %s: %v", text.Name, err)
		}
	}
	if err := errors.Join(c.Tell(t.Context(), "b", "", []store.Unit{a.Unit}), c.Push(t.Context(), batch(a, "1"))); err != nil {
		t.Fatal(err)
	}
	db.Kill()
	for _, err := range []error{c.Push(t.Context(), batch(a, "2")), c.Tell(t.Context(), "c", "", []store.Unit{a.Unit})} {
		if status(err) != http.StatusServiceUnavailable {
			t.Errorf("%v, want %d", err, http.StatusServiceUnavailable)
		}
	}
}

// TestReadTokens says what is wrong with a file, and where.
func TestReadTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":            "there is no token",
		"web push ci": "line 1: 3 words",
		"# x\n../x push ci " + "a23456789012345678901":                      `line 2: project "../x"`,
		"web write ci a23456789012345678901":                                `role "write"`,
		"web push ci short":                                                 "has 5 characters",
		"a push ci a23456789012345678901\na push ci b23456789012345678901":  "line 2: project a has another token of the name ci",
		"a push ci a23456789012345678901\nb push ci2 a23456789012345678901": "line 2: ci and ci2 have the same token",
	} {
		if _, err := ReadTokens(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestHostile sends what no client of ours would.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	address, stop := start(t, Options{Stores: sqlite.Dir(dir)})
	post := func(path, kind, coding, host string, body []byte) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, address+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Content-Encoding", coding)
		if host != "" {
			r.Host = host
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, _ := io.ReadAll(answer.Body); answer.StatusCode >= 400 && !bytes.HasPrefix(text, []byte("footfall: ")) {
			t.Errorf("%s answers %d %q", path, answer.StatusCode, text)
		}
		return answer.StatusCode
	}
	for _, path := range []string{wire.PathBuilds, wire.PathUnits, wire.PathCounts} {
		for _, c := range []struct {
			name, kind, coding, host string
			body                     []byte
			want                     int
		}{
			{"a form", "application/x-www-form-urlencoded", "", "", []byte("a=b"), 415},
			{"bytes that are not packed", wire.ContentType, "zstd", "", []byte("hello"), 422},
			{"a message that is none", wire.ContentType, "zstd", "", wire.Pack([]byte("\xff\xff\xff")), 422},
			{"a message without a build", wire.ContentType, "zstd", "", wire.Pack(nil), 422},
			{"a bomb", wire.ContentType, "zstd", "", wire.Pack(make([]byte, wire.MostBytes+1)), 413},
			{"too much", wire.ContentType, "zstd", "", make([]byte, wire.MostPacked+1), 413},
			{"another's name", wire.ContentType, "zstd", "evil.example:80", wire.Pack(nil), 421},
		} {
			if got := post(path, c.kind, c.coding, c.host, c.body); got != c.want {
				t.Errorf("%s to %s: %d, want %d", c.name, path, got, c.want)
			}
		}
	}
	c, a := newClient(t, address, ""), aFile("a.c", 1)
	if err := errors.Join(c.Tell(t.Context(), "b", "", []store.Unit{a.Unit}), c.Push(t.Context(), batch(a, "1"))); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	stop()
	if diff := cmp.Diff(map[string][]int64{"a.c": {1}}, sums(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTexts takes texts of sources as far as there is room, and counts in any case.
func TestTexts(t *testing.T) {
	text := func(name string) store.Unit {
		u, err := units.OfText(name, bytes.Repeat([]byte(name), 100))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	texts := []store.Unit{text("a.c"), text("b.c"), text("c.c")}
	large, err := units.OfText("large.c", randomText(units.MostText))
	if err != nil {
		t.Fatal(err)
	}
	many := make([]store.Unit, 6) // of more than one message
	for i := range many {
		many[i] = large
		many[i].Name = fmt.Sprint(i, ".c")
	}
	broken := store.Unit{Kind: store.Text, Name: "nul.c", Program: []byte("\x01a\x00")}
	for _, c := range []struct {
		name  string
		most  int64
		older bool
		tell  [][]store.Unit
		why   []string
		kept  int
	}{
		{"room", 1 << 20, false, [][]store.Unit{texts, texts}, []string{"", ""}, 3},
		{"none", 0, false, [][]store.Unit{texts}, []string{"the server takes no text of sources (--max-sources=0)"}, 0},
		{"too many", 2 << 20, false, [][]store.Unit{texts[:1], many, texts[1:2], texts[:1]},
			[]string{"", "takes as much as the server keeps: 2 MB", "takes as much as the server keeps: 2 MB", ""}, 1},
		{"an older server", 1 << 20, true, [][]store.Unit{texts}, []string{"the server is of an older footfall, which takes none"}, 0},
		{"what is no text", 1 << 20, false, [][]store.Unit{{broken}, texts}, []string{"it has NUL characters", ""}, 3},
	} {
		dir := t.TempDir()
		address, stop := start(t, Options{Stores: sqlite.Dir(dir), MostTexts: c.most})
		if c.older {
			address = older(t, address)
		}
		client, a := newClient(t, address, ""), aFile("a.c", 3)
		for i, told := range c.tell {
			why, err := client.TellWith(t.Context(), "b", "1.0", []store.Unit{a.Unit}, told)
			if err != nil || (why == nil) != (c.why[i] == "") || why != nil && !strings.Contains(why.Error(), c.why[i]) {
				t.Errorf("%s, %d: %v, %v; want %q", c.name, i, why, err, c.why[i])
			}
		}
		if err := client.Push(t.Context(), batch(a, "1")); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		stop()
		s, err := sqlite.Read(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if z, err := s.Sizes(t.Context()); err != nil || z.Texts != c.kept {
			t.Errorf("%s: %d texts, want %d: %v", c.name, z.Texts, c.kept, err)
		}
		s.Close()
		if diff := cmp.Diff(map[string][]int64{"a.c": {3}}, sums(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// randomText is one that does not become less when it is packed.
func randomText(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] |= 1
	}
	return b
}

// older is a server before a server that does not know what texts are, as none did before there were any.
func older(t *testing.T, address string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := wire.Unpack(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case wire.PathBuilds:
			a, err := wire.DecodeAnnouncement(message)
			if err != nil {
				t.Error(err)
			}
			a.Texts = nil
			message = a.Encode()
		case wire.PathUnits:
			_, list, err := wire.DecodeUnits(message)
			if err != nil {
				t.Error(err)
			}
			for i := range list {
				if list[i].Kind == store.Text {
					http.Error(w, "footfall: unknown kind", http.StatusUnprocessableEntity)
					return
				}
			}
		}
		on, err := http.NewRequest(r.Method, address+r.URL.Path, bytes.NewReader(wire.Pack(message)))
		if err != nil {
			t.Error(err)
		}
		on.Header = r.Header
		answer, err := http.DefaultClient.Do(on)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		b, _ := io.ReadAll(answer.Body)
		if r.URL.Path == wire.PathBuilds {
			wanted, err := wire.DecodeWanted(b)
			if err != nil {
				t.Error(err)
			}
			b = (&wire.Wanted{Units: wanted.Units}).Encode()
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(b)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestRate lets a token make so many requests, and more when time has passed.
func TestRate(t *testing.T) {
	l := limits{rate: 2}
	now := time.Unix(1000, 0)
	a, b := &Token{Name: "a"}, &Token{Name: "b"}
	allowed := func(who *Token, now time.Time) (n int) {
		for l.allow(who, now) {
			n++
		}
		return n
	}
	for _, c := range []struct {
		who  *Token
		at   time.Duration
		want int
	}{{a, 0, 20}, {b, 0, 20}, {a, time.Second, 2}, {a, time.Hour, 20}} {
		if got := allowed(c.who, now.Add(c.at)); got != c.want {
			t.Errorf("%s at %v: %d, want %d", c.who.Name, c.at, got, c.want)
		}
	}
}

// TestExpiry adds up old windows at the start.
func TestExpiry(t *testing.T) {
	dir := t.TempDir()
	address, stop := start(t, Options{Stores: sqlite.Dir(dir)})
	c, a := newClient(t, address, ""), aFile("a.c", 3)
	old := batch(a, "1")
	old.Window = old.Window.Add(-40 * 24 * time.Hour)
	if err := errors.Join(c.Tell(t.Context(), "b", "", []store.Unit{a.Unit}), c.Push(t.Context(), old), c.Push(t.Context(), batch(a, "2"))); err != nil {
		t.Fatal(err)
	}
	stop()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &server{options: Options{KeepWindows: 30 * 24 * time.Hour, KeepDays: 400 * 24 * time.Hour, Log: slog.New(slog.DiscardHandler)}, projects: map[string]*project{store.DefaultProject: {store: s}}}
	server.expire(t.Context(), time.Now())
	older := batch(a, "3")
	older.Window = old.Window
	if err := s.Push(t.Context(), older); !errors.Is(err, store.ErrClosed) {
		t.Errorf("an old window: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string][]int64{"a.c": {6}}, sums(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// certificate writes one of 127.0.0.1, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private)
}

// TestTLS sends to a server whose certificate is known, and to none that is not.
func TestTLS(t *testing.T) {
	var o Options
	o.Stores = sqlite.Dir(t.TempDir())
	o.CertFile, o.KeyFile = certificate(t)
	address, _ := start(t, o)
	address = strings.Replace(address, "http://", "https://", 1)
	tell := func(known string) error {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), telling+"="+address, "SSL_CERT_FILE="+known)
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	if err := tell(o.CertFile); err != nil {
		t.Error(err)
	}
	other, _ := certificate(t)
	if err := tell(other); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody knows: %v", err)
	}
}
