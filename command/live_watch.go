//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/collect"
	"footfall/coverage"
	"footfall/input"
	"footfall/live"
	"footfall/output"
	"footfall/report"
	"footfall/watch"
)

// watch is the command with --watch: on the whole screen of a terminal, or the
// outputs again and again.
func (l *liveReport) watch(cmd *cobra.Command) error {
	if output.Width(l.Stdout) == 0 || cmd.Flags().Changed("output") || l.options.dump != "" {
		return l.rewrite()
	}
	return l.screen()
}

// screen shows the coverage as it grows.
func (l *liveReport) screen() error {
	var last []*collect.Snapshot
	l.flush()
	l.OnScreen()
	src := watch.Source{
		Title:    l.titles(),
		TitleNow: l.titles,
		Next: func() (*coverage.Set, error) {
			snapshots, err := l.TakeAgain()
			if err != nil {
				return nil, err
			}
			last = snapshots
			r, err := l.Collect(snapshots, false)
			if err != nil {
				return nil, err
			}
			return r.Set, nil
		},
		Reset:    l.ResetCounts,
		Said:     l.Said,
		Snapshot: func() (string, error) { return l.save(last) },
		ReadFile: l.Sources.Read,
	}
	_, color := output.Style(l.Stdout)
	return watch.Run(context.Background(), src, watch.Options{Interval: l.options.interval, Shown: l.Sources.Shown, NoColor: !color})
}

// save writes the data files of snapshots into a new directory.
func (l *liveReport) save(snapshots []*collect.Snapshot) (string, error) {
	dir, err := filepath.Abs(fmt.Sprintf("footfall-%s-%s", l.List[0].FileName(), time.Now().Format("150405")))
	if err != nil {
		return "", err
	}
	_, err = live.Dump(dir, collect.Units(snapshots))
	return dir, err
}

// rewrite writes the outputs again at each tick at which counts are others, until a signal comes, at which they are written once more, or all
// targets have ended. What was written last stays.
func (l *liveReport) rewrite() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		stop() // a second one ends us in any case
		input.Hurry()
	})
	ticker := time.NewTicker(l.options.interval)
	defer ticker.Stop()
	var judged error
	l.Again = new(report.Again)
	look := l.TakeAgain
	var written []*collect.Snapshot
	for first := true; ; first = false {
		snapshots, err := look()
		last := ctx.Err() != nil
		l.flush()
		switch {
		case err != nil && first:
			return err
		case err != nil && last:
			return judged
		case err != nil:
			fmt.Fprintf(l.Stderr, "footfall: %v; what was written last stays\n", err)
			return judged
		}
		l.SaidOnce()
		if first || last || !collect.Same(snapshots, written) || !l.areThere() {
			if judged, err = l.tick(snapshots, first); err != nil {
				return err
			}
			written = snapshots
		}
		if last {
			return judged
		}
		select {
		case <-ctx.Done():
			look = l.TakeSettled
		case <-ticker.C:
		}
	}
}

// areThere tells whether what was written is where it was put.
func (l *liveReport) areThere() bool {
	is := func(name string) bool { _, err := os.Lstat(name); return err == nil }
	return (l.options.dump == "" || is(l.options.dump)) && !slices.ContainsFunc(l.Outputs, func(out output.Request) bool { return !out.OnStdout() && !is(out.File) })
}

// tick writes all outputs. What is said about them is said the first time.
// judged is the error for missed thresholds.
func (l *liveReport) tick(snapshots []*collect.Snapshot, first bool) (judged, err error) {
	if l.options.dump != "" {
		if _, err := live.Dump(l.options.dump, collect.Units(snapshots)); err != nil {
			return nil, err
		}
	}
	r, err := l.Collect(snapshots, first)
	l.flush()
	if err != nil {
		return nil, err
	}
	if first {
		l.noteExcluded(r.Excluded)
	}
	if err = l.Print(r.Findings()); errors.Is(err, report.ErrMissed) {
		return missed(err), nil
	}
	return nil, err
}
