package command

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"

	"footfall/input"
)

// maxInput is --max-input, in MB.
type maxInput struct{}

func (maxInput) String() string { return strconv.FormatInt(input.Most()>>20, 10) }
func (maxInput) Type() string   { return "int" }

func (maxInput) Set(text string) error {
	n, err := parseMaxInput(text)
	if err == nil {
		input.SetMost(n)
	}
	return err
}

// parseMaxInput returns bytes.
func parseMaxInput(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		return 0, errors.New("expected a number of MB, at least 1")
	}
	return n << 20, nil
}

// defineMaxInput adds the option to a command that reads files which may be
// compressed.
func defineMaxInput(f *pflag.FlagSet) {
	f.Var(maxInput{}, "max-input", "read at most so many `MB` of one file, unpacked; a quarter of that where it is not read as a stream")
}
