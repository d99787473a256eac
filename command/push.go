package command

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/coverage"
	"footfall/fleet/client"
	"footfall/fleet/store"
	"footfall/fleet/units"
	"footfall/output"
	"footfall/report/source"
)

// This file is footfall push: what tests have run goes to the server of a fleet.

type pushOptions struct {
	mergeOptions // of which reports are read as by footfall merge
	serverOptions
	release, job string
	labels       []string
	patience     time.Duration
	withSources  bool
}

func newPushCommand() *cobra.Command {
	var o pushOptions
	cmd := &cobra.Command{
		Use:   "push --server URL --release NAME PATH...",
		Short: "Send what tests have run to footfall serve",
		Long: `Push reads data and reports as footfall report does - directories with .gcda and
.gcno files, profiles of LLVM (.profraw, .profdata), data of Go, lcov tracefiles, JSON
of gcov and gcovr, Cobertura - and adds what ran to a release on a server of footfall
serve. Any number of jobs push to one release, in any order, at the same time: the
server adds up. Names of sources below --root (the working directory) are those from
there, so that the machines of a CI may have their directories anywhere.

--test and --label say whose it is, and pages and answers can be asked for it. Tests
that are named within tracefiles keep their names.

What is pushed again counts once: if a push fails, or is not known to have succeeded,
do it again. What is the same is known by its content, release and labels; two
jobs that are to be added up although all of their counts are the same are told apart
by --job, such as the CI's number of the job. Of one job, with the same labels, the
greatest value counts that was pushed of each count.

No text of a source is sent, unless --with-sources says so: then that of sources below
--root, once each, up to 1 MB of one and 64 MB of all.

The token for the server is in the environment's FOOTFALL_TOKEN, or in --token-file.`,
		Example: `  # after the tests of a build
  footfall push --server http://127.0.0.1:7117 --release 1.4 --test parser build

  # in a CI, of each of thousands of jobs
  footfall push --server https://coverage.example.org --release "$CI_COMMIT_SHA" \
      --job "$CI_JOB_ID" --test "$CI_JOB_NAME" --label branch=main coverage.info`,
		Args: atLeast("a PATH"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.push(cmd, args) },
	}
	f := cmd.Flags()
	o.serverOptions.define(cmd, "send it to")
	f.StringVar(&o.release, "release", "", "it ran in the release `NAME`: a version, or the hash of a commit")
	f.StringVar(&o.test, "test", "", "it ran in the test of this `NAME`")
	f.StringArrayVar(&o.labels, "label", nil, "`NAME=VALUE` is so of it; may be repeated")
	f.StringVar(&o.job, "job", "", "it is of the job `ID`, and not of another one that is the same")
	f.BoolVar(&o.withSources, "with-sources", false, "send the text of sources below --root, too, for the server's pages")
	f.DurationVar(&o.patience, "patience", time.Minute, "try again for so long if the server cannot be reached, or has too much to do")
	f.StringArrayVarP(&o.objectDirs, "object-directory", "o", nil, "search `DIR` for notes (.gcno), and binaries with coverage mapping, too")
	f.StringArrayVar(&o.binaries, "object", nil, "`FILE` is a binary with coverage mapping (Clang's, Rust's), whether profiles are of it or not; may be repeated")
	f.StringVar(&o.sources.Root, "root", "", "send names below `DIR` from there (default: the working directory)")
	f.StringArrayVar(&o.sources.PathMaps, "path-map", nil, "`OLD=NEW`: what was compiled below OLD is now below NEW; the first that fits counts")
	f.StringArrayVar(&o.sources.Include, "include", nil, "send only sources that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.sources.Exclude, "exclude", nil, "leave out sources that match `GLOB`; may be repeated")
	f.BoolVar(&o.sources.SystemHeaders, "system-headers", false, "send headers of the system and of the compiler too")
	o.exclude.define(f)
	defineMaxInput(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "list every problem")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say only what is wrong")
	cmd.MarkFlagsMutuallyExclusive("verbose", "quiet")
	for _, needed := range []string{"server", "release"} {
		_ = cmd.MarkFlagRequired(needed)
	}
	shareFlags(cmd)
	wantValues(cmd)
	for _, dir := range []string{"object-directory", "root"} {
		_ = cmd.MarkFlagDirname(dir)
	}
	showFirst(cmd, "server", "release", "test", "label", "job", "token-file")
	return cmd
}

// testLabel is the label that has the name of a test.
const testLabel = "test"

func (o *pushOptions) push(cmd *cobra.Command, paths []string) error {
	labels, err := parseLabels(o.labels)
	if err != nil {
		return usageError(err)
	}
	server, err := o.serverOptions.client()
	if err != nil {
		return err
	}
	if o.ofData, err = source.NewSources(o.sources); err != nil {
		return usageError(err)
	}
	o.sources.SystemHeaders = true // a report has those that were asked for
	o.outputs = []string{"text"}   // of which nothing is printed
	if err := o.checkTexts(); err != nil {
		return usageError(err)
	}
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	defer collectLate(400, lateUpTo)()
	r, err := o.load(p, paths)
	if err != nil {
		return err
	}
	o.excludeOfReports(p, r, r.ExcludeAsked)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	list, parts := units.Split(fromRoot(r.Set, p.Sources.Shown))
	texts, err := o.texts(p, list)
	if err != nil {
		return err
	}
	var noTexts error
	if err := client.Persist(ctx, func() (err error) {
		noTexts, err = server.TellWith(ctx, o.release, o.release, list, texts)
		return err
	}); err != nil {
		return fmt.Errorf("push to %s: %w", o.server, err)
	}
	for i := range parts {
		b := o.batch(&parts[i], labels)
		if err := client.Persist(ctx, func() error { return server.Push(ctx, b) }); err != nil {
			return fmt.Errorf("push to %s: %w", o.server, err)
		}
	}
	with := ""
	switch {
	case noTexts != nil:
		fmt.Fprintf(p.Stderr, "footfall: the text of sources is not taken, or not all of it: %s\n", output.Printable(noTexts.Error()))
	case o.withSources:
		with = " with the text of " + output.Plural(len(texts), "source")
	}
	fmt.Fprintf(p.notes, "footfall: pushed %s%s of release %s to %s\n", output.Plural(len(list), "file"), with, output.Printable(o.release), output.Printable(o.server))
	return nil
}

// checkTexts tells what is wrong with --with-sources.
func (o *pushOptions) checkTexts() error {
	if o.withSources && o.ofData.Root() == "/" {
		return errNoRoot
	}
	return nil
}

// errNoRoot is told where anything could be the text of a source.
var errNoRoot = errors.New("--with-sources needs --root: the text of what is in that directory is sent")

// texts are those of the sources of units, if they are to be sent.
func (o *pushOptions) texts(p *printer, list []store.Unit) (all []store.Unit, err error) {
	if !o.withSources {
		return nil, nil
	}
	texts := units.NewTexts(p.Sources.Root(), &p.Sources.Owners)
	for i := range list {
		if err := texts.Note(&list[i]); err != nil {
			return nil, err
		}
	}
	err = texts.Read([]string{""}, func(_ store.Hash, u store.Unit) error {
		all = append(all, u)
		return nil
	})
	if left, why := texts.Left(); left > 0 {
		fmt.Fprintf(p.Stderr, "footfall: the text of %s is not sent: %s\n", output.Plural(left, "source"), output.Printable(why.Error()))
	}
	return all, err
}

// fromRoot is the set with the names that are shown.
func fromRoot(set *coverage.Set, shown func(string) string) *coverage.Set {
	var b coverage.Builder
	for _, f := range set.All() {
		f := *f // which is the set's
		f.Name = shown(f.Name)
		b.Add(&f)
	}
	return b.Set()
}

// batch is what the server gets of a part. Who counted is known by the job, or else by what was counted: it is
// the same however often it is sent.
func (o *pushOptions) batch(part *units.Part, labels map[string]string) *store.Batch {
	own := make(map[string]string)
	for name, value := range labels {
		own[name] = value
	}
	if part.Test != "" {
		own[testLabel] = part.Test
	}
	usage := part.Usage()
	who := "job " + o.job
	if o.job == "" {
		who = "content " + contentOf(usage)
	}
	now := time.Now()
	return &store.Batch{
		Build: o.release, Instance: store.Instance{Boot: who, Start: time.Unix(0, 0), Labels: own},
		Window: now.Truncate(time.Minute), Seen: now, Once: true, Usage: usage,
	}
}

// contentOf is a hash of units and their counters, which come in the order of the names of their files.
func contentOf(usage []store.Usage) string {
	h := sha256.New()
	for _, u := range usage {
		packed := store.PackVector(u.Hits)
		h.Write(u.Unit[:])
		h.Write(binary.AppendUvarint(nil, uint64(len(packed))))
		h.Write(packed)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// parseLabels reads NAME=VALUE.
func parseLabels(list []string) (map[string]string, error) {
	labels := make(map[string]string)
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--label=%s: NAME=VALUE was expected", text)
		}
		if name == testLabel {
			return nil, fmt.Errorf("--label=%s: the name of a test is given with --test", text)
		}
		if before, twice := labels[name]; twice && before != value {
			return nil, fmt.Errorf("--label=%s: it is %s already", text, before)
		}
		labels[name] = value
	}
	return labels, nil
}

// serverOptions are of which server, and who asks it.
type serverOptions struct{ server, tokenFile, cert, key, ca string }

// define adds the flags; what is said of --server is what is done there.
func (o *serverOptions) define(cmd *cobra.Command, what string) {
	f := cmd.Flags()
	f.StringVar(&o.server, "server", "", what+" the server at `URL`")
	f.StringVar(&o.tokenFile, "token-file", "", "the token is in `FILE` (default: in FOOTFALL_TOKEN)")
	f.StringVar(&o.cert, "cert", "", "show the server the certificate in `FILE` (PEM)")
	f.StringVar(&o.key, "key", "", "the key of --cert is in `FILE` (PEM)")
	f.StringVar(&o.ca, "ca", "", "the server's certificate is signed by one in `FILE` (PEM; default: those that the system trusts)")
	cmd.MarkFlagsRequiredTogether("cert", "key")
	for _, file := range []string{"token-file", "cert", "key", "ca"} {
		_ = cmd.MarkFlagFilename(file)
	}
}

// client is one of the server.
func (o *serverOptions) client() (*client.Client, error) {
	token, err := fleetToken(o.tokenFile)
	if err != nil {
		return nil, err
	}
	server, err := client.NewWith(o.server, client.Credentials{Token: token, CertFile: o.cert, KeyFile: o.key, CAFile: o.ca})
	if err != nil {
		return nil, usageError(err)
	}
	return server, nil
}

// fleetToken reads the token for a server, "" for none.
func fleetToken(file string) (string, error) {
	token, from := os.Getenv("FOOTFALL_TOKEN"), "FOOTFALL_TOKEN"
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, 4096))
		if err != nil {
			return "", err
		}
		token, from = string(b), file
		if strings.TrimSpace(token) == "" {
			return "", fmt.Errorf("%s has no token", file)
		}
	}
	token = strings.TrimSpace(token)
	for _, c := range token {
		if c <= ' ' || c > '~' {
			return "", errors.New("the token in " + from + " has characters that no token has")
		}
	}
	return token, nil
}
