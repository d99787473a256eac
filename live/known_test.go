//go:build linux

package live

import (
	"slices"
	"testing"
)

// TestKnown: what is known of a file from one process is right for another one, at another address.
func TestKnown(t *testing.T) {
	for _, v := range variants {
		if v.library {
			continue // of which the program says when it is opened
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains([]string{"conditions", "paths"}, v.name) {
				v.known(t, "gcc-12")
			}
		})
	}
}

func (v *variant) known(t *testing.T, compiler string) {
	first := v.start(t, compiler)
	known := NewKnown()
	for _, p := range []*program{first, run(t, first.dir, first.cmd.Args[0], first.cmd.Args[1:]...)} {
		p.tell("work")
		process, err := known.OpenPatiently(p.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer process.Close()
		want := snapshot(t, opened(t, p))
		got := snapshot(t, process)
		if len(got) != len(want) || len(got) == 0 {
			t.Fatalf("%d units, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i].Name != want[i].Name || !slices.Equal(got[i].Counts.Encode(), want[i].Counts.Encode()) {
				t.Errorf("%s: the counts differ from those of %s", got[i].Name, want[i].Name)
			}
		}
	}
	if len(known.images) == 0 {
		t.Error("no file is known")
	}
}
