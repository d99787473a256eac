//go:build linux

package process

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/needs"
)

// TestSamplerSeesItself samples this test, while a thread of it works.
func TestSamplerSeesItself(t *testing.T) {
	s, err := NewSampler(os.Getpid(), SampleOptions{Frequency: 1000})
	if err != nil {
		needs.Skip(t, needs.Perf, err)
	}
	defer s.Close()
	samples := 0
	read := func(all bool) {
		last := uint64(0)
		for _, e := range s.Read(all) {
			if e.Time < last {
				t.Fatal("events are not in their order")
			}
			last = e.Time
			if e.Kind == EventSample {
				samples++
				if e.PID != os.Getpid() || len(e.UserChain)+len(e.KernelChain) == 0 {
					t.Fatalf("a sample of process %d with a chain of %d: this is %d", e.PID, len(e.UserChain), os.Getpid())
				}
			}
		}
	}
	// Where a virtual CPU pauses, time goes by without samples.
	for begin := time.Now(); (samples < 50 || s.CPUTime() < 100*time.Millisecond) && time.Since(begin) < time.Minute; {
		for work := s.CPUTime(); s.CPUTime() < work+10*time.Millisecond && time.Since(begin) < time.Minute; {
		}
		read(false)
	}
	s.Stop()
	read(true)
	if used := s.CPUTime(); samples < 50 || used < 100*time.Millisecond {
		t.Errorf("%d samples, %v of CPU time", samples, used)
	}
}

func FuzzParseRecord(f *testing.F) {
	words := func(n ...uint64) (b []byte) {
		for _, v := range n {
			b = binary.NativeEndian.AppendUint64(b, v)
		}
		return b
	}
	f.Add(uint32(unix.PERF_RECORD_SAMPLE), uint16(0), words(1, 2, 3, contextKernel, 4, contextUser, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 2, 1, 2, 16))
	f.Add(uint32(unix.PERF_RECORD_MMAP2), uint16(0), words(1, 2, 3, 4, 5, 6, 7, 8, 0x61, 1, 2))
	f.Add(uint32(unix.PERF_RECORD_COMM), uint16(unix.PERF_RECORD_MISC_COMM_EXEC), words(1, 0x61, 1, 2))
	f.Add(uint32(unix.PERF_RECORD_FORK), uint16(0), words(1, 2, 3, 4, 5))
	f.Fuzz(func(t *testing.T, kind uint32, misc uint16, b []byte) {
		e, ok := parseRecord(kind, misc, b)
		if ok && len(e.Stack)+8*len(e.UserChain) > len(b) {
			t.Errorf("%d bytes of stack, chain of %d out of %d bytes", len(e.Stack), len(e.UserChain), len(b))
		}
	})
}

func FuzzPointerChain(f *testing.F) {
	f.Add([]byte("\x10\x10\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00"), uint64(0x1000), uint64(0x1000), false)
	f.Add([]byte("\x08\x10\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00"), uint64(0x1000), uint64(0x1000), true)
	f.Fuzz(func(t *testing.T, stack []byte, sp, fp uint64, compat bool) {
		chain := pointerChain(stack, sp, fp, 1, compat)
		if len(chain) == 0 || chain[0] != 1 || len(chain) > 1+len(stack)/4 {
			t.Errorf("%d frames in %d bytes", len(chain), len(stack))
		}
	})
}

func TestPointerChain(t *testing.T) {
	stack := binary.LittleEndian.AppendUint64(nil, 7) // a local variable
	for _, v := range []uint64{0x1018, 2, 0, 3} {     // two frames
		stack = binary.LittleEndian.AppendUint64(stack, v)
	}
	if got := pointerChain(stack, 0x1000, 0x1008, 1, false); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("chain %d", got)
	}
}
