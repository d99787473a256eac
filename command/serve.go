package command

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/fleet/ask"
	"footfall/fleet/client"
	"footfall/fleet/pages"
	"footfall/fleet/serve"
	"footfall/fleet/store"
	"footfall/output"
)

// This file is footfall serve, the server of a fleet.

// servedAt is where pages are, unless told.
const servedAt = "127.0.0.1:7117"

type serveOptions struct {
	store, listen, tokens, backup string
	cert, key, clientCA           string
	codeowners                    string
	owners                        []byte // what is in that file
	names                         []string
	keepWindows, keepDays         string
	rate                          float64
	maxSources                    int // MB
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --store sqlite:DIR|clickhouse:URL",
		Short: "Keep what the programs of many machines, and tests, have run",
		Long: `Serve takes what footfall push sends: which lines, functions and branches
ran, how often, in which release, in which test. It keeps that in a database (SQLite)
in a directory, which is made if it is not there, and which one serve uses at a time;
or in a database of a ClickHouse (18.16 or later), which is made, too, and which any
number of serve may use: clickhouse:http://HOST:8123/DATABASE. User and password are
USER:PASSWORD@ before HOST, or in CLICKHOUSE_USER and CLICKHOUSE_PASSWORD. Of several
ClickHouse, whose addresses have commas between them, each keeps a part of the counts.

Whatever it has answered with success is on disk, and what is sent again counts once:
senders may repeat what they are not sure of. serve may be killed at any time. While
a ClickHouse is away senders are told to try again.

It listens on 127.0.0.1 only, where everybody may do everything, unless it has
tokens: --tokens=FILE has lines with four words,

  PROJECT ROLE NAME TOKEN

where each project has a store of its own. The role is push, read (pages and
answers), or admin (both); TOKEN is a secret, as of openssl rand -hex 16. Who sends
the first counts of a process or of a test run owns them: under another NAME nobody
may add to these. With --client-ca who has a certificate of one that is signed there is
let in, too: TOKEN is then cert:COMMONNAME. Without --tokens who has any such
certificate may do everything, and nobody else anything. Without TLS (--tls-cert,
--tls-key) tokens are readable on the way: elsewhere than on this machine that is for a
proxy that has TLS, or a network that is yours.

What is older than --keep-windows is added up day by day, and takes no more counts;
days older than --keep-days are forgotten, with the text of sources of builds of which
nothing else is left. When each line was last seen to run is kept for ever. 0 is never.`,
		Example: `  # on one machine: a server, what a test has run
  footfall serve --store sqlite:/var/lib/footfall
  footfall push --server http://127.0.0.1:7117 --release 1.4 --test parser build

  # for others: tokens, TLS
  footfall serve --store sqlite:/var/lib/footfall --listen :7117 \
      --tokens /etc/footfall/tokens --tls-cert cert.pem --tls-key key.pem

  # what outgrows one machine: several of these, before one ClickHouse
  CLICKHOUSE_PASSWORD=... footfall serve --store clickhouse:http://footfall@db:8123/footfall

  # a copy, while it runs; to restore, serve the copy
  footfall serve --store sqlite:/var/lib/footfall --backup /backup/footfall-monday`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.store, "store", "", "keep it in `sqlite:DIR` or clickhouse:URL")
	f.StringVar(&o.listen, "listen", servedAt, "listen on `ADDRESS:PORT`")
	f.StringVar(&o.tokens, "tokens", "", "let in who has a token of `FILE`")
	f.StringVar(&o.cert, "tls-cert", "", "serve HTTPS with the certificate in `FILE` (PEM)")
	f.StringVar(&o.key, "tls-key", "", "the key of --tls-cert is in `FILE` (PEM)")
	f.StringArrayVar(&o.names, "name", nil, "answer to requests for the host `NAME`, too, where there are no tokens; may be repeated")
	f.StringVar(&o.codeowners, "codeowners", "", "pages tell whose code ran, and never did, by `FILE`, a CODEOWNERS as of GitHub")
	f.StringVar(&o.keepWindows, "keep-windows", "30d", "add up to days what is older than `DAYS`")
	f.StringVar(&o.keepDays, "keep-days", "400d", "forget days that are older than `DAYS`")
	f.IntVar(&o.maxSources, "max-sources", 1000, "keep up to `MEGABYTES` of the text of sources of a project, packed; 0: none")
	f.Float64Var(&o.rate, "rate", 200, "take so many `REQUESTS` a second of one token, in the long run; 0: all")
	f.StringVar(&o.backup, "backup", "", "copy the store to `DIR`, which is made, and end")
	f.StringVar(&o.clientCA, "client-ca", "", "let in who has a certificate that is signed by one in `FILE` (PEM)")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	_ = cmd.MarkFlagRequired("store")
	for _, file := range []string{"tokens", "tls-cert", "tls-key", "client-ca", "codeowners"} {
		_ = cmd.MarkFlagFilename(file)
	}
	_ = cmd.MarkFlagDirname("backup")
	wantValues(cmd)
	showFirst(cmd, "store", "listen", "tokens", "backup")
	return cmd
}

// days reads a number of days, 30d or 30.
func days(flag, text string) (time.Duration, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "d"), 10, 16)
	if err != nil {
		return 0, fmt.Errorf("--%s=%s: a number of days was expected, such as 30d", flag, text)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

func checkMaxSources(megabytes int) error {
	if megabytes < 0 || megabytes > 1<<30 {
		return fmt.Errorf("--max-sources=%d: 0 or more was expected", megabytes)
	}
	return nil
}

func (o *serveOptions) run(cmd *cobra.Command) error {
	stores, err := parseStores(o.store)
	if err != nil {
		return usageError(err)
	}
	options := serve.Options{Stores: stores, Pages: o.pages, Names: o.names, CertFile: o.cert, KeyFile: o.key, Rate: o.rate, MostTexts: int64(o.maxSources) << 20, Log: slog.New(slog.NewTextHandler(output.Stderr, nil))}
	if options.KeepWindows, err = days("keep-windows", o.keepWindows); err == nil {
		options.KeepDays, err = days("keep-days", o.keepDays)
	}
	switch {
	case err != nil:
	case options.KeepDays > 0 && options.KeepDays < options.KeepWindows:
		err = errors.New("--keep-days is less than --keep-windows")
	case options.KeepDays > 0 && options.KeepWindows == 0:
		err = errors.New("--keep-windows=0 makes no days that --keep-days could forget; give --keep-days=0, too")
	case o.rate < 0:
		err = errors.New("--rate is less than 0")
	default:
		err = checkMaxSources(o.maxSources)
	}
	if err != nil {
		return usageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one ends us in any case
	if o.backup != "" {
		if err := backup(ctx, stores, o.backup); err != nil {
			return err
		}
		fmt.Fprintf(output.Stderr, "footfall: %s is a copy of %s\n", output.Printable(o.backup), output.Printable(fmt.Sprint(stores)))
		return nil
	}
	if options.Tokens, options.Clients, err = o.whoMay(); err != nil {
		return err
	}
	if err := o.readOwners(); err != nil {
		return err
	}
	l, err := o.listener()
	if err != nil {
		return err
	}
	scheme := "http"
	if o.cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(output.Stderr, "footfall: serving %s at %s://%s\n", output.Printable(fmt.Sprint(stores)), scheme, l.Addr())
	return serve.Serve(ctx, l, options)
}

// pages answers questions about a project.
func (o *serveOptions) pages(project string, s store.Reader) http.Handler {
	options := pages.Options{Title: "fleet"}
	a := &ask.Ask{Store: s}
	if o.owners != nil {
		a.Owners, _, _ = ask.ReadOwners(o.codeowners, bytes.NewReader(o.owners)) // of each project, whose requests share it
	}
	if project != store.DefaultProject {
		options.Title = project
	}
	options.MostTexts = int64(o.maxSources) << 20
	options.KeepWindows, _ = days("", o.keepWindows) // they have been checked
	options.KeepDays, _ = days("", o.keepDays)
	return pages.Handler(a, options)
}

// readOwners reads --codeowners, of whose lines those that make no sense are told.
func (o *serveOptions) readOwners() (err error) {
	if o.codeowners == "" {
		return nil
	}
	if o.owners, err = os.ReadFile(o.codeowners); err != nil {
		return err
	}
	_, problems, err := ask.ReadOwners(o.codeowners, bytes.NewReader(o.owners))
	for _, problem := range problems {
		fmt.Fprintf(output.Stderr, "footfall: %s\n", output.Printable(problem.Error()))
	}
	return err
}

// whoMay reads who is let in; without anything everybody on this machine.
func (o *serveOptions) whoMay() (tokens *serve.Tokens, clients *x509.CertPool, err error) {
	if o.tokens != "" {
		if tokens, err = o.readTokens(); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case o.clientCA != "" && o.cert == "":
		return nil, nil, usageError(errors.New("--client-ca needs --tls-cert and --tls-key: certificates are shown where there is TLS"))
	case o.clientCA != "":
		clients, err = client.Authorities(o.clientCA)
	case tokens != nil && tokens.NeedsCertificates():
		err = usageError(fmt.Errorf("%s has names of certificates (cert:), so --client-ca is needed", o.tokens))
	}
	return tokens, clients, err
}

// open tells that everybody who reaches the server may do everything.
func (o *serveOptions) open() bool { return o.tokens == "" && o.clientCA == "" }

// readTokens reads --tokens, which nobody else may read.
func (o *serveOptions) readTokens() (*serve.Tokens, error) {
	f, err := os.Open(o.tokens)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may read it or write to it; do: chmod 600 %[1]s", o.tokens)
	}
	tokens, err := serve.ReadTokens(f)
	if err != nil {
		return nil, fmt.Errorf("%s, %w", o.tokens, err)
	}
	return tokens, nil
}

// listener listens, but to others than this machine only where not everybody is let in.
func (o *serveOptions) listener() (net.Listener, error) {
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil {
		return nil, usageError(fmt.Errorf("--listen=%s: it is ADDRESS:PORT, such as %s", o.listen, servedAt))
	}
	if o.open() && host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--listen=%s: another program listens there; 127.0.0.1:0 takes a free port", o.listen)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen=%s: %w", o.listen, err)
	}
	if local, ok := l.Addr().(*net.TCPAddr); o.open() && (!ok || !local.IP.IsLoopback()) {
		_ = l.Close()
		return nil, usageError(fmt.Errorf("--listen=%s: others can reach this, so it needs --tokens or --client-ca", o.listen))
	}
	return l, nil
}
