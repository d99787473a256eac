package ask

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"footfall/fleet/store"
)

// parameters are those of a question: a selection, and what else the question takes.
type parameters struct {
	store.Query
	values url.Values
}

// parse reads parameters: release, build, host and label=NAME=VALUE, which may be repeated, in, from and to. Others
// are an error unless they are taken: they would choose something else than is meant.
func parse(values url.Values, now time.Time, takes ...string) (*parameters, error) {
	p := &parameters{values: values}
	var err error
	for name, all := range values {
		switch name {
		case "release":
			p.Releases = all
		case "build":
			p.Builds = all
		case "host":
			p.Hosts = all
		case "label":
			p.Labels = make(map[string]string)
			for _, text := range all {
				label, value, ok := strings.Cut(text, "=")
				if !ok || label == "" {
					return nil, wrong("label %q is not NAME=VALUE", text)
				}
				p.Labels[label] = value
			}
		case "in":
			text, found := all[len(all)-1], false
			for origin, name := range originNames {
				if name == text {
					p.Origin, found = origin, true
				}
			}
			if !found {
				return nil, wrong("in: %q is not hosts, tests or all", text)
			}
		case "from":
			p.From, err = parseTime(all, now)
		case "to":
			p.To, err = parseTime(all, now)
		default:
			if !slices.Contains(takes, name) {
				return nil, wrong("parameter %q is not known here", name)
			}
		}
		if err != nil {
			return nil, wrong("%s: %v", name, err)
		}
	}
	return p, nil
}

// Check tells whether a parameter of a selection may have a value.
func Check(name, value string) error {
	_, err := parse(url.Values{name: {value}}, time.Now())
	return err
}

// parseTime reads a day, a moment, or how many days ago: 2026-11-01, 2026-11-01T12:00:00Z, 30d.
func parseTime(all []string, now time.Time) (time.Time, error) {
	text := all[len(all)-1]
	if days, ago := strings.CutSuffix(text, "d"); ago {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return daysAgo(now, int(n)), nil
		}
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a day (2026-11-01), a time (2026-11-01T12:00:00Z) or a number of days ago (30d)", text)
}

// daysAgo is the beginning of the day, of UTC, so many days ago.
func daysAgo(now time.Time, days int) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
}

// one returns the value of a parameter, or what it is by default.
func (p *parameters) one(name, otherwise string) string {
	if !p.values.Has(name) {
		return otherwise
	}
	return p.values.Get(name)
}

// number is a parameter that is a whole number from 1.
func (p *parameters) number(name string, otherwise int) (int, error) {
	text := p.one(name, strconv.Itoa(otherwise))
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, wrong("%s: %q is not a whole number from 1", name, text)
	}
	return int(n), nil
}

// everywhere refuses selections of which the store does not keep for ever what it was asked for.
func (p *parameters) everywhere() error {
	if len(p.Hosts)+len(p.Labels) > 0 || !p.From.IsZero() || !p.To.IsZero() {
		return wrong("when a function was last seen to run is kept for all hosts together: host, label, from and to do not go with this")
	}
	return nil
}
