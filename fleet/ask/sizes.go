package ask

import (
	"context"
	"io"
	"time"
)

// Sizes say how much the store has, and from when.
type Sizes struct {
	Bytes     int64 `json:"bytes"` // on disk
	Builds    int   `json:"builds"`
	Units     int   `json:"units"`
	Instances int   `json:"instances"`
	// Windows are what instances counted, Days what windows were rolled up to.
	Windows      int       `json:"windows"`
	FirstWindow  time.Time `json:"first_window,omitzero"`
	LastWindow   time.Time `json:"last_window,omitzero"`
	Days         int       `json:"days"`
	FirstDay     time.Time `json:"first_day,omitzero"`
	LastDay      time.Time `json:"last_day,omitzero"`
	Closed       time.Time `json:"closed,omitzero"` // what came for windows before is refused
	ProgramBytes int64     `json:"program_bytes"`
	WindowBytes  int64     `json:"window_bytes"`
	DayBytes     int64     `json:"day_bytes"`
	SeenBytes    int64     `json:"seen_bytes"`
	Texts        int       `json:"texts"` // of sources
	TextBytes    int64     `json:"text_bytes"`
}

func (a *Ask) sizes(ctx context.Context, _ *parameters) (Answer, error) {
	z, err := a.Store.Sizes(ctx)
	return &Sizes{
		z.Bytes, z.Builds, z.Units, z.Instances, z.Windows, utc(z.FirstWindow), utc(z.LastWindow), z.Days, utc(z.FirstDay), utc(z.LastDay),
		utc(z.Closed), z.ProgramBytes, z.UsageBytes, z.DayBytes, z.SeenBytes,
		z.Texts, z.TextBytes,
	}, err
}

// A SizeRow is a part of the store.
type SizeRow struct {
	What        string
	Number      int
	Bytes       int64
	First, Last time.Time
}

// Rows are the parts of the store.
func (z *Sizes) Rows() []SizeRow {
	return []SizeRow{
		{"windows, of each process", z.Windows, z.WindowBytes, z.FirstWindow, z.LastWindow},
		{"days, rolled up", z.Days, z.DayBytes, z.FirstDay, z.LastDay},
		{"notes and mappings of sources", z.Units, z.ProgramBytes, time.Time{}, time.Time{}},
		{"text of sources", z.Texts, z.TextBytes, time.Time{}, time.Time{}},
		{"first and last seen, of builds", z.Builds, z.SeenBytes, time.Time{}, time.Time{}},
	}
}

// Text writes a table.
func (z *Sizes) Text(w io.Writer, _ Style) error {
	t := newTable("what", "number", "bytes", "first", "last").right(1, 2)
	for _, r := range z.Rows() {
		t.row(r.What, number(r.Number), number(r.Bytes), dayOrNone(r.First), dayOrNone(r.Last))
	}
	t.row("all, on disk", "", number(z.Bytes), "", "")
	return t.write(w, 0)
}

func dayOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return day(t)
}
