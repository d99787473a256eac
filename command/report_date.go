package command

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"footfall/report"
)

// newest returns when the last of the data files and reports was written, or of
// the notes if there are none, and not before t.
func newest(t time.Time, objects *report.Objects) time.Time {
	data, notes := t, time.Time{}
	for _, name := range objects.Reports {
		data = later(data, name)
	}
	for _, u := range objects.Units {
		notes = later(notes, u.Notes)
		for _, name := range u.Data {
			data = later(data, name)
		}
	}
	if data.IsZero() {
		return notes
	}
	return data
}

func later(t time.Time, name string) time.Time {
	if info, err := os.Stat(name); err == nil && info.ModTime().After(t) {
		return info.ModTime()
	}
	return t
}

// sourceDate returns the time of SOURCE_DATE_EPOCH, which builds that can be
// reproduced set, zero if it is not set.
// (reproducible-builds.org/specs/source-date-epoch)
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970", text)
	}
	return time.Unix(seconds, 0), nil
}
