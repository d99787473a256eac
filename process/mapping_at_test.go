//go:build linux && amd64

package process

import "testing"

// TestMappingAt asks for addresses one by one: what is said of them is what the whole memory
// map says, where the kernel answers and where it does not.
func TestMappingAt(t *testing.T) {
	p, _ := started(t, `
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
`)
	maps, _, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	err = p.WhileHeld(func(h *Held) error {
		for _, from := range []Maps{nil, maps} { // the kernel's answer, and what stands for it
			h.maps = from
			last := uint64(1 << 12)
			for _, m := range maps {
				if m.Path == "[vsyscall]" { // no memory of the process
					continue
				}
				for _, addr := range []uint64{m.Start, m.Start + 8, m.End - 1} {
					got, found, err := h.MappingAt(addr)
					if err != nil || !found || got.Start != m.Start || got.End != m.End || got.Read != m.Read || got.Write != m.Write || got.Exec != m.Exec {
						t.Errorf("%#x: %+v, %v, %v, want %+v", addr, got, found, err, m)
					}
				}
				if m.Start > last {
					if got, found, err := h.MappingAt(last); found || err != nil {
						t.Errorf("%#x, where nothing is: %+v, %v", last, got, err)
					}
				}
				last = m.End
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
