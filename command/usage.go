package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file has what all commands say of wrong usage, and how they end.

// Exit statuses; commands choose between them by the error that they return.
const (
	statusFailed = 1 // the work failed
	statusUsage  = 2 // the command line was wrong
)

// An exitError ends footfall with a status of the command's choice.
type exitError struct {
	status int
	err    error // to be printed; nil: the command has said it all
	inFile bool  // the mistake is in a configuration file, not in the command line
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError marks err as a mistake in the command line.
func usageError(err error) error {
	return &exitError{status: statusUsage, err: err}
}

// wantsValue marks flags for which an empty text is a mistake: in a script it is
// a variable that is not set, and what it should ask for must not be forgotten.
const wantsValue = "footfall_wants_value"

// wantValues marks all flags of cmd so.
func wantValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { _ = cmd.Flags().SetAnnotation(f.Name, wantsValue, nil) })
}

// checkValues finds marked flags that were given an empty text.
func checkValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if _, wants := f.Annotations[wantsValue]; wants && (len(values) == 0 || slices.Contains(values, "")) {
			err = fmt.Errorf("--%s is empty: is a variable not set?", f.Name)
		}
	})
	return err
}

// plainly says what cobra says of flags that exclude each other.
func plainly(err error) error {
	if _, set, ok := strings.Cut(err.Error(), "; ["); ok {
		if names, ok := strings.CutSuffix(set, "] were all set"); ok {
			return fmt.Errorf("--%s do not go together", strings.Join(strings.Fields(names), " and --"))
		}
	}
	return err
}
