package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"footfall/fleet/ask"
)

// badge is the picture of the coverage of a selection.
func (s *server) badge(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	q.Set("output", "badge")
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawQuery = ask.PathAPI+"coverage", q.Encode()
	s.ask.API().ServeHTTP(w, r)
}

// totals are those that Prometheus asks for, again and again.
type totals struct {
	mu   sync.Mutex
	made time.Time
	text string
}

// metrics writes totals in Prometheus' text format.
// (prometheus.io/docs/instrumenting/exposition_formats)
func (s *server) metrics(w http.ResponseWriter, r *http.Request) {
	s.totals.mu.Lock()
	defer s.totals.mu.Unlock()
	if s.totals.made.IsZero() || time.Since(s.totals.made) > fresh {
		text, err := s.metricsText(r.Context())
		if err != nil {
			http.Error(w, "footfall: "+err.Error(), ask.Status(err))
			return
		}
		s.totals.text, s.totals.made = text, time.Now()
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(s.totals.text))
}

// A metric is a gauge, of each release.
type metric struct {
	name, help string
	of         func(*ask.Point) float64
}

var metrics = []metric{
	{"footfall_fleet_hosts", "Hosts that have reported of the release.", func(p *ask.Point) float64 { return float64(p.Hosts) }},
	{"footfall_fleet_last_report_timestamp_seconds", "When the last window began that was reported of the release.", func(p *ask.Point) float64 { return float64(p.To.Unix()) }},
	{"footfall_fleet_lines", "Lines of the release that have code.", func(p *ask.Point) float64 { return float64(p.Lines.Total) }},
	{"footfall_fleet_lines_covered", "Lines of the release that ran.", func(p *ask.Point) float64 { return float64(p.Lines.Covered) }},
	{"footfall_fleet_functions", "Functions of the release.", func(p *ask.Point) float64 { return float64(p.Functions.Total) }},
	{"footfall_fleet_functions_covered", "Functions of the release that ran.", func(p *ask.Point) float64 { return float64(p.Functions.Covered) }},
	{"footfall_fleet_branches", "Branches of the release.", func(p *ask.Point) float64 { return float64(p.Branches.Total) }},
	{"footfall_fleet_branches_covered", "Branches of the release that were taken.", func(p *ask.Point) float64 { return float64(p.Branches.Covered) }},
}

var inLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (s *server) metricsText(ctx context.Context) (string, error) {
	trend, err := s.ask.Answer(ctx, "trend", url.Values{})
	if err != nil {
		return "", err
	}
	sizes, err := s.ask.Answer(ctx, "sizes", url.Values{})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", m.name, m.help, m.name)
		points := trend.(*ask.Trend).Points
		for i := range points {
			fmt.Fprintf(&b, "%s{release=\"%s\"} %.0f\n", m.name, inLabel.Replace(strings.ToValidUTF8(points[i].Release, "\uFFFD")), m.of(&points[i]))
		}
	}
	z := sizes.(*ask.Sizes)
	fmt.Fprintf(&b, "# HELP footfall_store_bytes Size of the store on disk.\n# TYPE footfall_store_bytes gauge\nfootfall_store_bytes %d\n", z.Bytes)
	return b.String(), nil
}
