package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/coverage"
	"footfall/live"
	"footfall/output"
	"footfall/proc"
	"footfall/watch"
)

// watch is the command with --watch: on the whole screen of a terminal, or the
// outputs again and again.
func (l *liveTargets) watch(cmd *cobra.Command) error {
	if output.Width(l.stdout) == 0 || cmd.Flags().Changed("output") || l.options.dump != "" {
		return l.rewrite()
	}
	return l.screen()
}

// screen shows the coverage as it grows.
func (l *liveTargets) screen() error {
	var titles []string
	for _, t := range l.targets {
		titles = append(titles, t.title)
	}
	var last []*taken
	l.watching, l.pending = true, new([]string)
	src := watch.Source{
		Title: strings.Join(titles, ", "),
		Next: func() (*coverage.Set, error) {
			snapshots, err := l.takeAll()
			if err != nil {
				return nil, err
			}
			last = snapshots
			return l.collect(snapshots, false)
		},
		Reset: func() error {
			snapshots, err := l.takeAll()
			if err != nil {
				return err
			}
			for _, s := range snapshots {
				s.history.Reset(nil)
				s.last.units = s.history.Units()
			}
			return nil
		},
		Said: func() []string {
			said := *l.pending
			*l.pending = nil
			return said
		},
		Snapshot: func() (string, error) {
			return l.save(last)
		},
		ReadFile: l.sources.Read,
	}
	_, color := output.Style(l.stdout)
	return watch.Run(context.Background(), src, watch.Options{Interval: l.options.interval, Shown: l.sources.Shown, NoColor: !color})
}

// takeAll takes a snapshot of each target, or what was read last where there is
// none now. It is an error if all have ended, or none could be read so far.
func (l *liveTargets) takeAll() ([]*taken, error) {
	var snapshots []*taken
	var ended, failed []error
	running := 0
	for i := 0; i < len(l.targets); i++ { // it may become more
		t := l.targets[i]
		if !t.ended {
			if err := l.look(t); t.ended {
				ended = append(ended, err)
			} else if err != nil {
				failed = append(failed, err)
			}
		}
		if !t.ended {
			running++
		}
		if t.last != nil {
			snapshots = append(snapshots, t.last)
		}
	}
	if running == 0 || len(snapshots) == 0 {
		return nil, errors.Join(append(ended, failed...)...)
	}
	for _, err := range ended {
		l.say("%v: its counts stay as they were read last", err)
	}
	for _, err := range failed {
		l.sayOnce("%v: it is read again at the next tick", err)
	}
	return snapshots, nil
}

// look reads a target. The counts of one that has ended stay; of one that runs
// another program now that is another target.
func (l *liveTargets) look(t *liveTarget) error {
	if t.source == nil {
		return l.lookAgain(t)
	}
	_, err := l.take(t)
	replaced := errors.Is(err, proc.ErrReplaced)
	if !replaced && !errors.Is(err, proc.ErrExited) {
		return err
	}
	t.ended = true
	if t.process != nil {
		t.process.Close()
	}
	if replaced {
		l.targets = append(l.targets, &liveTarget{title: t.title, pid: t.process.PID})
	}
	return err
}

// lookAgain looks for counters in a process that has become another program,
// and may have none so far.
func (l *liveTargets) lookAgain(t *liveTarget) error {
	switch err := t.open(t.pid); {
	case err == nil:
		if err := l.trust(t); err != nil {
			return err
		}
		// It has begun since the first look: what cannot be its own is left out.
		if t.history, err = live.NewHistory(nil); err == nil {
			t.history.Take(nil)
			err = l.look(t)
		}
		return err
	case errors.Is(err, live.ErrNoCounters):
		return nil
	default:
		t.ended = true // or may not be looked into
		return err
	}
}

// save writes the data files of snapshots into a new directory.
func (l *liveTargets) save(snapshots []*taken) (string, error) {
	name := "kernel"
	if p := l.targets[0].process; p != nil {
		name = fmt.Sprintf("%s-%d", strings.ReplaceAll(output.Printable(p.Name), "/", "_"), p.PID)
	}
	dir, err := filepath.Abs(fmt.Sprintf("footfall-%s-%s", name, time.Now().Format("150405")))
	if err != nil {
		return "", err
	}
	var units []live.Unit
	for _, s := range snapshots {
		units = append(units, s.units...)
	}
	_, err = live.Dump(dir, units)
	return dir, err
}

// rewrite writes the outputs again at each tick, until a signal comes or all
// targets have ended. What was written last stays.
func (l *liveTargets) rewrite() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ticker := time.NewTicker(l.options.interval)
	defer ticker.Stop()
	var judged error
	for first := true; ; first = false {
		snapshots, err := l.takeAll()
		switch {
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(l.stderr, "footfall: %v; what was written last stays\n", err)
			return judged
		}
		l.watching = true
		if judged, err = l.tick(snapshots, first); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return judged
		case <-ticker.C:
		}
	}
}

// tick writes all outputs. What is said about them is said the first time.
// judged is the error for missed thresholds.
func (l *liveTargets) tick(snapshots []*taken, first bool) (judged, err error) {
	if l.options.dump != "" {
		var units []live.Unit
		for _, s := range snapshots {
			units = append(units, s.units...)
		}
		if _, err := live.Dump(l.options.dump, units); err != nil {
			return nil, err
		}
	}
	set, err := l.collect(snapshots, first)
	if err != nil {
		return nil, err
	}
	var exit *exitError
	if err = l.print(set); errors.As(err, &exit) && exit.status == statusMissed {
		return err, nil
	}
	return nil, err
}
