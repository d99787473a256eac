//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/collect"
	"footfall/coverage"
	"footfall/input"
	"footfall/output"
	"footfall/report/html"
	"footfall/watch/web"
)

// This file is live TARGET --serve: pages that are alive.

// servePlace cuts an address to listen at.
func servePlace(address string) (host, port string, err error) {
	if host, port, err = net.SplitHostPort(address); err != nil {
		err = fmt.Errorf("--serve=%s: it is ADDRESS:PORT, such as %s", address, servedAt)
	}
	return host, port, err
}

// checkServe tells which options were given that do not go with --serve.
func (o *liveOptions) checkServe(cmd *cobra.Command) error {
	if o.serve == "" {
		return nil
	}
	host, port, err := servePlace(o.serve)
	if err != nil {
		return err
	}
	if host == "" { // not all addresses, unless they are named
		o.serve = net.JoinHostPort("127.0.0.1", port)
	}
	for _, other := range []string{"output", "list-excluded", "by-test", "tests-for", "tests-for-diff", "diff-base", "fail-under", "only-ran"} {
		if cmd.Flags().Changed(other) {
			return fmt.Errorf("--%s does not go with --serve, which shows pages", other)
		}
	}
	return nil
}

// serve shows pages until a signal comes.
func (l *liveReport) serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, func() {
		stop() // a second one ends us in any case
		input.Hurry()
	})
	address := l.options.serve
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--serve=%s: another program listens there; --serve=127.0.0.1:0 takes a free port", address)
	}
	if err != nil {
		return fmt.Errorf("--serve=%s: %w", address, err)
	}
	l.flush()
	l.OnScreen()
	var last *collect.Result
	collected := func(snapshots []*collect.Snapshot, err error) (*collect.Result, error) {
		if err != nil {
			return nil, err
		}
		return l.Collect(snapshots, false)
	}
	src := web.Source{
		Title: l.titles,
		Next: func() (*coverage.Set, error) {
			r, err := collected(l.TakeAgain())
			if err != nil {
				return nil, err
			}
			last = r
			return r.Set, nil
		},
		Contents: func() html.Contents { return l.Contents(last.Findings()) },
		Reset:    l.ResetCounts,
		Said:     l.Said,
	}
	if len(l.options.command) > 0 {
		src.Command = &web.Command{
			Line:    shellLine(l.options.command),
			Prepare: func() error { return l.Prepare(l.Last()) },
			Run:     l.runForPage,
			Settled: func() (html.Contents, error) {
				r, err := collected(l.settled())
				if err != nil {
					return html.Contents{}, err
				}
				ran := l.Printing
				ran.OnlyRan = true
				return ran.Contents(r.Findings()), nil
			},
		}
	}
	name, _, _ := net.SplitHostPort(address)
	return web.Serve(ctx, listener, src, web.Options{
		Interval: l.options.interval,
		Shown:    l.Sources.Shown,
		Names:    []string{name},
		Begun: func(url string) {
			fmt.Fprintf(l.Stderr, "footfall: %s shows %s; Ctrl-C ends this, and nothing else\n", url, l.titles())
		},
	})
}

// titles are those of all targets.
func (l *liveReport) titles() string {
	var titles []string
	for _, t := range l.List {
		titles = append(titles, t.Title)
	}
	return strings.Join(titles, ", ")
}

// settled takes snapshots in which all is that has been counted, or what was read last of
// programs that have ended.
func (l *liveReport) settled() ([]*collect.Snapshot, error) {
	if snapshots, err := l.TakeSettled(); err == nil {
		return snapshots, nil
	}
	return l.Last(), nil
}

// runForPage runs the command, without input. If ctx ends first the command gets SIGTERM, and so
// do those that it has started; a second later SIGKILL.
func (l *liveReport) runForPage(ctx context.Context, out io.Writer) (ended string, err error) {
	command := l.options.command
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Stdout, program.Stderr = out, out
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGTERM) }
	program.WaitDelay = time.Second
	err = program.Run()
	if program.ProcessState == nil {
		return "", err // it was not started
	}
	status, by, known := output.ProgramStatus(err)
	switch {
	case err == nil:
		return "exit status 0", nil
	case by != 0:
		return fmt.Sprintf("ended by a signal: %v", by), nil
	case known:
		return fmt.Sprintf("exit status %d", status), nil
	case errors.Is(err, exec.ErrWaitDelay):
		return "exit status 0; something that it started goes on", nil
	}
	return "", err
}

// shellLine writes a command as it would be typed.
func shellLine(command []string) string {
	var words []string
	for _, w := range command {
		if w == "" || strings.ContainsFunc(w, func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || slices.Contains([]rune("-_./:=,+@%"), c))
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return output.Printable(strings.Join(words, " "))
}
