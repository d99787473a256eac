//go:build linux

package process

import (
	"os"
	"strings"
	"testing"
)

// TestCalmMonitor: the slack of one thread is another one until the last of those has ended who want it so.
func TestCalmMonitor(t *testing.T) {
	slack := func() string {
		b, err := os.ReadFile(slackOfMonitor())
		if err != nil {
			t.Skip(err)
		}
		return strings.TrimSpace(string(b))
	}
	before := slack()
	first, calm := calmMonitor()
	if !calm {
		t.Skip("it takes CAP_SYS_NICE")
	}
	second, _ := calmMonitor()
	first()
	if got := slack(); got != "20000000" {
		t.Errorf("slack %s", got)
	}
	second()
	if got := slack(); got != before {
		t.Errorf("slack %s at the end, %s before", got, before)
	}
}
