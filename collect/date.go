package collect

import (
	"time"

	"footfall/input"
	"footfall/report"
)

// newest returns when the last of the data files and reports was written, or of the
// notes if there are none.
func newest(objects *report.Objects) time.Time {
	var data, notes time.Time
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
	if info, err := input.Stat(name); err == nil && info.ModTime().After(t) {
		return info.ModTime()
	}
	return t
}
