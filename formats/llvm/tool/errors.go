package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"footfall/formats/llvm"
)

// words are an error as LLVM says it.
type words string

func (w words) Error() string { return string(w) }

// A fileError is what is wrong with a profile, as LLVM says it.
type fileError struct {
	text string
	hint string // "": there is none
}

func (e *fileError) Error() string { return e.text }

// profileError puts an error of reading a profile b into LLVM's words, and adds where, if that is known here.
func (v *Invocation) profileError(b []byte, err error) error {
	var line *llvm.TextError
	var at *llvm.FormatError
	switch {
	case errors.As(err, &line):
		if line.Found == "" { // at the end
			return v.capital(&fileError{text: "truncated profile data"})
		}
		e := &fileError{text: "malformed instrumentation profile data"}
		if said := textErrors[line.Expected]; said != "" && v.version() >= 14 {
			e.text += ": " + said
		} else if said == "" {
			e.text += fmt.Sprintf(": line %d: %v expected", line.Line, line.Expected)
		}
		return v.capital(e)
	case errors.Is(err, llvm.ErrNotProfile):
		e := &fileError{text: "unrecognized instrumentation profile encoding format", hint: "Perhaps you forgot to use the --sample or --memory option?"}
		if v.version() < 12 {
			e.hint = "Perhaps you forgot to use the -sample option?"
		}
		return v.capital(e)
	case errors.Is(err, llvm.ErrCut):
		if f, ok := llvm.Kind(b); ok && f == llvm.Raw {
			return v.capital(&fileError{text: "invalid instrumentation profile data (file header is corrupt)"})
		}
		return v.capital(&fileError{text: "truncated profile data"})
	case errors.As(err, &at):
		return v.capital(&fileError{text: "malformed instrumentation profile data: " + err.Error()})
	}
	return withoutPath(err)
}

// capital is for LLVM up to 11, which begins messages with a capital letter.
func (v *Invocation) capital(e *fileError) error {
	if v.version() < 12 {
		e.text = strings.ToUpper(e.text[:1]) + e.text[1:]
	}
	return e
}

// textErrors are LLVM's words for what is expected in a profile in text.
var textErrors = map[string]string{
	"the hash of a function": "function hash is not a valid integer",
	"a number of counters":   "number of counters is not a valid integer",
	"a count":                "count is invalid",

	"a number of counters above 0":  "number of counters is zero",
	"a number of bytes of a bitmap": "number of bitmap bytes is not a valid integer",
	"a byte of a bitmap":            "bitmap byte is not a valid integer",
}

// withoutPath is an error of a file, in the words of the system.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return errors.New(capitalised(e.Error()))
	}
	return err
}

// capitalised is what C's library says for what Go's says.
func capitalised(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
