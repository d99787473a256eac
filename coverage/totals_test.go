package coverage

import "testing"

func TestPercentRoundsDown(t *testing.T) {
	for _, test := range []struct {
		covered, total int
		want           string
	}{
		{0, 0, "-"}, {0, 1, "0.0%"}, {1, 100000, "0.1%"}, {1, 3, "33.3%"}, {99999, 100000, "99.9%"}, {7, 7, "100.0%"},
	} {
		if got := (Ratio{test.covered, test.total}).Rounded(); got != test.want {
			t.Errorf("%d of %d: %s, want %s", test.covered, test.total, got, test.want)
		}
	}
}
