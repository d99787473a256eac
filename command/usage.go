package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
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

// atLeast checks that there are the arguments of these names; others may follow.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s needs %s", cmd.Name(), strings.Join(names, " and "))
		}
		return nil
	}
}

// plainly says what cobra says of flags that exclude each other, or are missing.
func plainly(err error) error {
	if missing, ok := strings.CutPrefix(err.Error(), "required flag(s) "); ok {
		names := strings.Split(strings.Trim(strings.TrimSuffix(missing, " not set"), `"`), `", "`)
		return fmt.Errorf("--%s is needed", strings.Join(names, " and --"))
	}
	if _, group, ok := strings.Cut(err.Error(), "at least one of the flags in the group ["); ok {
		names, _, _ := strings.Cut(group, "]")
		return fmt.Errorf("--%s is needed", strings.Join(strings.Fields(names), " or --"))
	}
	if _, set, ok := strings.Cut(err.Error(), "; ["); ok {
		if names, ok := strings.CutSuffix(set, "] were all set"); ok {
			return fmt.Errorf("--%s do not go together", strings.Join(strings.Fields(names), " and --"))
		}
	}
	return err
}

// suggest adds to what is said of an unknown flag which one may have been meant.
func suggest(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	word := unknown.GetSpecifiedName()
	if hasOutput(cmd, word) {
		return fmt.Errorf("%w: did you mean --output %s?", err, word)
	}
	near, least := "", max(1, (len(word)+1)/3) // letters
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		// --fail-under-line, --object
		begins := strings.HasPrefix(word, f.Name) || strings.HasPrefix(f.Name, word)
		switch d := lettersBetween(word, f.Name); {
		case f.Hidden:
		case d <= least:
			near, least = f.Name, d-1
		case begins && near == "":
			near = f.Name
		}
	})
	if near == "" {
		return err
	}
	return fmt.Errorf("%w: did you mean --%s?", err, near)
}

// lettersBetween is how many letters are to be changed for a word to become another one, one for two that are exchanged.
func lettersBetween(word, name string) int {
	d := levenshtein.ComputeDistance(word, name)
	for i := 1; i < len(word); i++ {
		if word[i] != word[i-1] {
			d = min(d, 1+levenshtein.ComputeDistance(word[:i-1]+word[i:i+1]+word[i-1:i]+word[i+1:], name))
		}
	}
	return d
}

// hasOutput tells whether a word is one of the outputs of a command: other tools have a flag for each.
func hasOutput(cmd *cobra.Command, word string) bool {
	complete, ok := cmd.GetFlagCompletionFunc("output")
	if !ok {
		return false
	}
	list, _ := complete(cmd, nil, "")
	return slices.ContainsFunc(list, func(c cobra.Completion) bool {
		name, _, _ := strings.Cut(c, "\t")
		return strings.TrimSuffix(name, "=") == word
	})
}
