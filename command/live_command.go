//go:build linux

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"footfall/output"

	"github.com/spf13/cobra"
)

// This file is live TARGET -- COMMAND: what ran in the programs while a command did.

// cutCommand takes the COMMAND from the arguments, and makes the options be those for it.
func (o *liveOptions) cutCommand(cmd *cobra.Command, args []string) (targets []string, err error) {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		return args, nil
	}
	if o.command = args[dash:]; len(o.command) == 0 {
		return nil, errors.New("no COMMAND after --")
	}
	if o.serve != "" { // it is a button
		return args[:dash], nil
	}
	for _, other := range []string{"list", "watch", "in-place", "reset", "hard-reset", "since-reset", "total", "each"} {
		if cmd.Flags().Changed(other) {
			return nil, fmt.Errorf("--%s does not go with a COMMAND, during which counts start from zero", other)
		}
	}
	if !cmd.Flags().Changed("output") {
		o.outputs = []string{"ran"}
		cmd.SetOut(cmd.ErrOrStderr()) // standard output is the COMMAND's
	}
	return args[:dash], nil
}

// between is how often programs are looked at meanwhile, so that what is counted in libraries
// that are closed is not lost.
const between = 100 * time.Millisecond

// during shows what ran while the command did.
func (l *liveReport) during(command []string) error {
	snapshots, err := l.TakeSettled()
	if err == nil {
		err = l.Prepare(snapshots)
	}
	if err == nil {
		err = l.ResetCounts()
	}
	if err != nil {
		return err
	}
	l.SaidOnce()
	l.flush()
	status, err := l.runCommand(command)
	if err != nil {
		return err
	}
	snapshots, err = l.TakeSettled()
	if err != nil { // all have ended
		if !l.SeesEnds() {
			fmt.Fprintf(l.Stderr, "footfall: %v: counts are those of the last look, at most %v before\n", err, between)
		}
		snapshots, err = l.Last(), nil
	}
	if l.options.dump != "" {
		err = l.Dump(l.options.dump, snapshots)
	}
	if err == nil {
		err = l.report(snapshots)
	}
	if err == nil && status != 0 {
		return &exitError{status: status}
	}
	return err
}

// runCommand runs the command and returns its exit status, that of shells if a signal ended it.
func (l *liveReport) runCommand(command []string) (status int, err error) {
	program := exec.Command(command[0], command[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := program.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	ticker := time.NewTicker(between)
	defer ticker.Stop()
	for {
		select {
		case err = <-ended:
			return statusOf(l.Stderr, command[0], err)
		case s := <-signals:
			passOn(program, s)
		case <-ticker.C:
			_, _ = l.TakeAgain() // what fails now is said at the end
		}
	}
}

// statusOf returns the exit status of a command that ended with err, that of shells if a signal ended it,
// which is said.
func statusOf(stderr io.Writer, command string, err error) (status int, failed error) {
	status, by, known := output.ProgramStatus(err)
	if !known {
		return 0, err
	}
	if by != 0 {
		fmt.Fprintf(stderr, "footfall: %s was ended by a signal: %v\n", command, by)
	}
	return status, nil
}

// passOn passes on to a command what would end us: it ends, and then there is a report. Ctrl-C comes to both.
func passOn(command *exec.Cmd, s os.Signal) {
	if !slices.Contains([]os.Signal{os.Interrupt, syscall.SIGQUIT}, s) {
		_ = command.Process.Signal(s)
	}
}
