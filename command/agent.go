//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/fleet/agent"
	"footfall/output"
	"footfall/process"
	"footfall/report/source"
)

// This file is footfall agent: what the programs of a machine run goes to the server of a fleet.

type agentOptions struct {
	serverOptions
	spool, host      string
	every            time.Duration
	most             int
	releases, labels []string
	objectDirs       []string
	sources          source.Options
	ran              []string
	withSources      bool
}

func newAgentCommand() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent --server URL [TARGET...]",
		Short: "Send what the programs of this machine run to footfall serve",
		Long: `Agent finds the programs of this machine that were compiled with counters (gcc or
clang --coverage, clang -fprofile-instr-generate -fcoverage-mapping, rustc -C
instrument-coverage, go build -cover), those that run and those that come, with all
their processes, and sends what they have counted to a server of footfall serve, each
minute. The programs are not changed. Which lines the counters are of the server knows
from what the compiler has put into the program; for --coverage from the notes (.gcno),
which have to be here, where the compiler wrote them or in --object-directory. Sources
are not needed, and not sent unless --with-sources says so: then the text of those below
--root, once each, up to 1 MB of one and 64 MB of a build. TARGETs limit it to some
programs: names, paths, PID+ with its descendants, cgroup:NAME or unit:NAME, with
* ? [...].

Of programs that run when the first agent is started counts are those from then on; of
those that begin later all. What is to be sent, and what was read last, is in --spool,
where it stays until the server has it on disk. The agent and the server may be killed
at any time: what was read is sent, and counts once. What a program counts while no
agent runs is found by the next one if all processes of that program still run.

With --ran it also watches which functions run of programs without counters, such as
those of a distribution, as live --ran functions --keep does: their code is changed, and
stays so when the agent ends, at no cost for what has run once. What ran, not how often,
is sent in the minute in which it first did, and again every 6 hours. Of functions that
may have been running when the agent came, or that cannot be watched, the server says
that it is not known whether they ran.

As another user than root it sees the programs of that user. It has to be allowed to
trace them (CAP_SYS_PTRACE, or /proc/sys/kernel/yama/ptrace_scope of 0), to know what
those that end have counted.

The token for the server is in the environment's FOOTFALL_TOKEN, or in --token-file.`,
		Example: `  # all programs, to a server on this machine
  footfall agent --server http://127.0.0.1:7117 --release 1.4

  # of two programs, with all their processes
  footfall agent --server http://127.0.0.1:7117 --release nginx=1.22 --release 15.4 nginx unit:postgresql

  # which functions of nginx and its modules, as the distribution ships it, run
  footfall agent --server http://127.0.0.1:7117 --ran /usr/sbin/nginx

  # what was compiled in /build/shop is called by its names from there
  footfall agent --server https://coverage.example.org --token-file /etc/footfall/token \
      --root /build/shop --object-directory /usr/lib/debug/shop \
      --release shopd=2.0.1 --label region=eu`,
		RunE: func(_ *cobra.Command, targets []string) error { return o.run(targets) },
	}
	f := cmd.Flags()
	o.serverOptions.define(cmd, "send it to")
	f.StringVar(&o.spool, "spool", "", "keep in `DIR` what is to be sent (default: /var/lib/footfall-agent, or the user's ~/.local/state/footfall-agent)")
	f.StringVar(&o.host, "host", "", "this machine is called `NAME` (default: its host name)")
	f.DurationVar(&o.every, "every", time.Minute, "read each `TIME`; less often if that would take more than a hundredth of a processor's time")
	f.IntVar(&o.most, "spool-limit", 512, "keep up to `MEGABYTES` in --spool; with more, windows become longer until the server takes what there is")
	f.StringArrayVar(&o.releases, "release", nil, "what runs is of the release `[PROGRAM=]NAME`; may be repeated")
	f.StringArrayVar(&o.labels, "label", nil, "`NAME=VALUE` is so of this machine; may be repeated")
	f.StringArrayVarP(&o.objectDirs, "object-directory", "o", nil, "search `DIR` for notes (.gcno), too")
	f.StringArrayVar(&o.ran, "ran", nil, "also send which functions run of `TARGET`, which needs no counters; may be repeated")
	f.BoolVar(&o.withSources, "with-sources", false, "send the text of sources below --root, too, for the server's pages")
	f.StringVar(&o.sources.Root, "root", "/", "send names below `DIR` from there")
	f.StringArrayVar(&o.sources.PathMaps, "path-map", nil, "`OLD=NEW`: what was compiled below OLD is called as if it were below NEW; the first that fits counts")
	f.StringArrayVar(&o.sources.Include, "include", nil, "send only sources that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.sources.Exclude, "exclude", nil, "leave out sources that match `GLOB`; may be repeated")
	f.BoolVar(&o.sources.SystemHeaders, "system-headers", false, "send headers of the system and of the compiler too")
	_ = cmd.MarkFlagRequired("server")
	shareFlags(cmd)
	wantValues(cmd)
	for _, dir := range []string{"object-directory", "root", "spool"} {
		_ = cmd.MarkFlagDirname(dir)
	}
	showFirst(cmd, "server", "ran", "release", "label", "token-file", "spool")
	return cmd
}

func (o *agentOptions) run(targets []string) error {
	options, err := o.options()
	if err != nil {
		return err
	}
	for _, text := range targets {
		target, err := process.ParseSelector(text)
		if err != nil {
			return usageError(err)
		}
		options.Targets = append(options.Targets, target)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	options.Log.Info("agent", "server", o.server, "spool", options.Dir, "host", options.Host)
	return agent.Run(ctx, options)
}

func (o *agentOptions) options() (options agent.Options, err error) {
	labels, err := parseLabels(o.labels)
	if err != nil {
		return options, usageError(err)
	}
	release, err := parseReleases(o.releases)
	if err != nil {
		return options, usageError(err)
	}
	if err := errors.Join(checkEvery(o.every), checkSpoolLimit(o.most)); err != nil {
		return options, usageError(err)
	}
	server, err := o.client()
	if err != nil {
		return options, err
	}
	sources, err := source.NewSources(o.sources)
	if err != nil {
		return options, usageError(err)
	}
	if o.withSources && sources.Root() == "/" {
		return options, usageError(errNoRoot)
	}
	ranSources, err := source.NewSources(o.sources)
	if err != nil {
		return options, usageError(err)
	}
	for _, text := range o.ran {
		if _, err := process.ParseSelector(text); err != nil {
			return options, usageError(fmt.Errorf("--ran: %w", err))
		}
	}
	host := o.host
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			return options, err
		}
	}
	dir, err := o.spoolDir()
	if err != nil {
		return options, err
	}
	return agent.Options{
		Server: server, Dir: dir, Host: host, Every: o.every, Most: int64(o.most) << 20, Release: release, Labels: labels,
		Sources: sources, RanSources: ranSources, Texts: o.withSources, Ran: o.ran, ObjectDirs: o.objectDirs, Log: slog.New(slog.NewTextHandler(output.Stderr, nil)),
	}, nil
}

func (o *agentOptions) spoolDir() (string, error) {
	switch {
	case o.spool != "":
		return filepath.Abs(o.spool)
	case os.Getenv("STATE_DIRECTORY") != "": // systemd's
		return os.Getenv("STATE_DIRECTORY"), nil
	case os.Geteuid() == 0:
		return "/var/lib/footfall-agent", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("--spool is needed: %w", err)
	}
	return filepath.Join(home, ".local/state/footfall-agent"), nil
}
