//go:build linux

package profile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/process/needs"
)

// needSampling skips where the kernel lets nobody sample.
func needSampling(t *testing.T) {
	t.Helper()
	s, err := process.NewSampler(os.Getpid(), process.SampleOptions{Frequency: 99})
	var perf *process.PerfError
	if errors.As(err, &perf) {
		needs.Skip(t, needs.Perf, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func record(t *testing.T, o RecordOptions, args ...string) (*Profile, string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var out strings.Builder
	cmd.Stdout = &out
	p, exit, err := RecordCommand(cmd, o)
	if err := errors.Join(exit, err); err != nil {
		t.Fatal(err)
	}
	return p, out.String()
}

// shares returns the parts of the work of split.c as sampled and as clocked.
func shares(t *testing.T, p *Profile, output string) (sampled, clocked [3]float64) {
	t.Helper()
	if _, err := fmt.Sscanf(output, "%f %f %f", &clocked[0], &clocked[1], &clocked[2]); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	for _, n := range NewGraph(p).Nodes {
		if i := slices.Index([]string{"ten", "thirty", "sixty"}, n.Func.Name); i >= 0 {
			sampled[i] = float64(n.Total)
		}
	}
	for _, s := range []*[3]float64{&sampled, &clocked} {
		sum := s[0] + s[1] + s[2]
		for i := range s {
			s[i] *= 100 / sum
		}
	}
	return sampled, clocked
}

// TestSampledSplit measures a known split of time. Chance alone moves the
// greatest part of 2,000 samples by 1.1 points; four times that is a failure.
// Where timers are late there are fewer samples. Where a virtual CPU pauses its clock
// goes on, and where it becomes slower work takes longer: samples are to be as one of the
// two says, the clock or the work.
func TestSampledSplit(t *testing.T) {
	needSampling(t)
	program := build(t, "gcc-12", "-O2", "-g", "-pthread", "testdata/split.c")
	for _, args := range [][]string{{"2"}, {"1", "2"}} {
		p, out := record(t, RecordOptions{Frequency: 999}, append([]string{program}, args...)...)
		if got := p.Mapping[0].File; got != program {
			t.Errorf("the first mapping is %s, not the program", got)
		}
		sampled, clocked := shares(t, p, out)
		samples := NewGraph(p).Total / p.Period
		most := 4 * 100 * math.Sqrt(0.6*0.4/float64(samples))
		t.Logf("%v: %d samples: %.1f, by the clock %.1f, in %s", args, samples, sampled, clocked, seconds(NewGraph(p).Total))
		far := func(from [3]float64) (far float64) {
			for i := range sampled {
				far = max(far, math.Abs(sampled[i]-from[i]))
			}
			return far
		}
		if far(clocked) > most && far([3]float64{10, 30, 60}) > most {
			t.Errorf("%v: sampled %.1f, by the clock %.1f", args, sampled, clocked)
		}
		if total := float64(NewGraph(p).Total) / 1e9; total < 1.8 || total > 2.6 {
			t.Errorf("%v: %.2f s of CPU time, expected 2", args, total)
		}
	}
}

// chainOf returns the names on the way to the function, of the chain with the
// most time, the outermost first.
func chainOf(p *Profile, function string) string {
	r := &View{Profile: p, Graph: NewGraph(p)}
	stacks, _ := r.stacks()
	best, sums := "", make(map[string]int64)
	for _, s := range stacks {
		var names []string
		for _, f := range s.functions {
			names = append(names, f.Name)
			if f.Name == function {
				break
			}
		}
		chain := strings.Join(names, " ")
		if sums[chain] += s.cpu; strings.HasSuffix(chain, function) && sums[chain] > sums[best] {
			best = chain
		}
	}
	return best
}

// TestChains looks for callers: without frame pointers, through a library, in
// 32-bit code, beyond pages of the stack that
// were never used, beyond the copy of the stack, and by frame pointers alone.
func TestChains(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("stacks are copied on x86-64 only")
	}
	needSampling(t)
	for _, test := range []struct {
		name, compiler, args string
		pointers             bool
	}{
		{name: "O2", compiler: "gcc-12", args: "-O2 -DLARGE=10"},
		{name: "O2 stripped", compiler: "gcc-12", args: "-O2 -DLARGE=10 -s -rdynamic"},
		{name: "static", compiler: "gcc-12", args: "-O2 -static -DLARGE=10"},
		{name: "i386", compiler: "gcc-12", args: "-O2 -m32 -DLARGE=10"},
		{name: "clang", compiler: "clang-16", args: "-O2 -DLARGE=10"},
		{name: "unused stack", compiler: "gcc-12", args: "-O2 -DLARGE=14 -DUNUSED"},
		{name: "large stack", compiler: "gcc-12", args: "-O0 -DLARGE=17"},
		{name: "frame pointers", compiler: "gcc-12", args: "-O0 -static -DLARGE=10", pointers: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := build(t, test.compiler, append(strings.Fields(test.args), "-g", "testdata/chain.c")...)
			p, _ := record(t, RecordOptions{Frequency: 2000, FramePointers: test.pointers}, program)
			chain := chainOf(p, "leaf")
			// Copies are cut until we have read one: a busy machine may let the program end before.
			for range 9 {
				if test.name != "unused stack" || strings.HasPrefix(chain, "_start ") {
					break
				}
				p, _ = record(t, RecordOptions{Frequency: 2000}, program)
				chain = chainOf(p, "leaf")
			}
			switch {
			case test.pointers: // qsort of the C library keeps none
				if !strings.HasSuffix(chain, "compare leaf") {
					t.Errorf("chain %q does not end with compare and leaf", chain)
				}
			case !strings.Contains(chain, "main sort "), !strings.HasSuffix(chain, "leaf"):
				t.Errorf("chain %q does not lead from main over sort to leaf", chain)
			case test.name != "large stack" && !strings.HasPrefix(chain, "_start "):
				t.Errorf("chain %q does not begin at _start", chain)
			}
		})
	}
}

// TestRecordRunning attaches to a process that starts programs with threads, when it is told to.
func TestRecordRunning(t *testing.T) {
	needSampling(t)
	program := build(t, "gcc-12", "-O2", "-g", "-pthread", "testdata/split.c")
	cmd := exec.Command("sh", "-c", `echo; while read line; do "$0" 0.05 2 >/dev/null; echo; done`, program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
	lines := bufio.NewReader(out)
	_, _ = lines.ReadString('\n')
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	before := descriptors(t)
	go func() {
		defer cancel()
		for descriptors(t) == before && ctx.Err() == nil { // until it is sampled
			time.Sleep(time.Millisecond)
		}
		for range 4 {
			_, _ = io.WriteString(in, "\n")
			_, _ = lines.ReadString('\n')
		}
	}()
	p, err := Record(ctx, cmd.Process.Pid, RecordOptions{Frequency: 999})
	if err != nil {
		t.Fatal(err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d files are open, before it were %d", after, before)
	}
	threads := make(map[string]bool)
	for _, s := range p.Sample {
		threads[s.Label["thread"][0]] = true
	}
	if len(threads) < 4 || chainOf(p, "sixty") == "" {
		t.Errorf("threads %v, chain to sixty %q", threads, chainOf(p, "sixty"))
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestRecordEndsWithTheProcess(t *testing.T) {
	needSampling(t)
	program := build(t, "gcc-12", "-O2", "-pthread", "testdata/split.c")
	seen := false
	for _, length := range []float64{0.3, 3, 30} { // where the machine is busy the beginning may be missed
		cmd := exec.Command(program, fmt.Sprint(length))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, err := Record(context.Background(), cmd.Process.Pid, RecordOptions{Frequency: 999})
		if process.Alive(cmd.Process.Pid) {
			t.Errorf("the process runs on: %v", err)
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		if seen = err == nil && float64(NewGraph(p).Total) > length*1e9*2/3; seen {
			break
		}
		t.Logf("of %v s not two thirds were seen: error %v", length, err)
	}
	if !seen {
		t.Error("the process was not seen")
	}
	if _, err := Record(context.Background(), 1<<22+1, RecordOptions{Frequency: 99}); err == nil || !strings.Contains(err.Error(), "no process") {
		t.Errorf("a process that is not there: %v", err)
	}
}
