package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"footfall/fleet/client"
	"footfall/fleet/store/sqlite"
)

// An authority signs certificates.
type authority struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// sign makes the files NAME.pem and NAME.key; by itself, if a is not made so far.
func (a *authority) sign(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.serial++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if a.cert == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		a.cert, a.key = c, key
	}
	signed, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, b := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: signed}, ".key": {Type: "EC PRIVATE KEY", Bytes: own}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+file), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// TestCertificates: who has a certificate of ours is let in, by its name, and nobody else; beside tokens, too.
func TestCertificates(t *testing.T) {
	ours, others := &authority{dir: t.TempDir()}, &authority{dir: t.TempDir()}
	for _, name := range []string{"ca", "server", "agent", "reader"} {
		ours.sign(t, name)
	}
	for _, name := range []string{"ca", "agent"} {
		others.sign(t, name)
	}
	pool, err := client.Authorities(ours.file("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	const token = "0123456789abcdef0123"
	tokens, err := ReadTokens(strings.NewReader("web push machines cert:agent\nweb read people cert:reader\nweb push ci " + token + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	as := func(a *authority, name, token string) client.Credentials {
		c := client.Credentials{Token: token, CAFile: ours.file("ca.pem")}
		if name != "" {
			c.CertFile, c.KeyFile = a.file(name+".pem"), a.file(name+".key")
		}
		return c
	}
	const refused = " " // by TLS, which may be told by an alert or by the end of the connection
	tests := []struct {
		who        client.Credentials
		open, with string // why it cannot push, without tokens and with; "": it can
	}{
		{as(ours, "agent", ""), "", ""},
		{as(ours, "reader", ""), "", "is one to read"},
		{as(ours, "server", ""), "", "a token is needed"},
		{as(others, "agent", ""), refused, refused},
		{as(nil, "", ""), refused, "a token is needed"},
		{as(nil, "", token), refused, ""},
		{client.Credentials{Token: token}, "unknown authority", "unknown authority"},
	}
	for _, with := range []*Tokens{nil, tokens} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(ctx, l, Options{
				Stores: sqlite.Dir(t.TempDir()), Tokens: with, Clients: pool, CertFile: ours.file("server.pem"), KeyFile: ours.file("server.key"), Log: slog.New(slog.DiscardHandler),
			})
		}()
		for i, test := range tests {
			c, err := client.NewWith("https://"+l.Addr().String(), test.who)
			if err != nil {
				t.Fatal(err)
			}
			err = c.Tell(ctx, "b", "1.0", nil)
			want := test.open
			if with != nil {
				want = test.with
			}
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%d, tokens %v: %v, where %q was expected", i, with != nil, err, want)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestWrongCertificates are told before anything is asked.
func TestWrongCertificates(t *testing.T) {
	a := &authority{dir: t.TempDir()}
	a.sign(t, "ca")
	for server, c := range map[string]client.Credentials{
		"http://127.0.0.1:1":    {CAFile: a.file("ca.pem")},
		"https://127.0.0.1:1/a": {CAFile: a.file("ca.key")},
		"https://127.0.0.1:1/b": {CertFile: a.file("ca.key"), KeyFile: a.file("ca.pem")},
	} {
		if _, err := client.NewWith(server, c); err == nil {
			t.Errorf("%s, %+v: no error", server, c)
		}
	}
}
