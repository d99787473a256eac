package binary

import (
	"cmp"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// BenchmarkExits finds the exits of all functions of a file, of $EXITS_OF or bash.
func BenchmarkExits(b *testing.B) {
	f := openFile(b, cmp.Or(os.Getenv("EXITS_OF"), "/bin/bash"))
	for range b.N {
		begin := time.Now()
		names, err := f.Functions()
		if err != nil {
			b.Fatal(err)
		}
		x, err := f.ExitFinder(names, nil)
		if err != nil {
			b.Fatal(err)
		}
		made := time.Since(begin)
		functions, have, pops := 0, 0, 0
		why := map[string]int{}
		begin = time.Now()
		for _, start := range x.frames.Starts() {
			low, high, _ := x.frames.Described(start)
			functions++
			_, err := x.Exits(FunctionSymbol{Addr: low, Size: high - low}, [2]uint64{low, low}, false)
			switch {
			case err == nil:
				have++
			case errors.Is(err, ErrPops):
				pops++
			}
			if err != nil {
				w := err.Error()
				if i := strings.Index(w, ErrExits.Error()+": "); i >= 0 {
					w = w[i+len(ErrExits.Error())+2:]
				}
				w = strings.Join(strings.FieldsFunc(w, func(r rune) bool { return r >= '0' && r <= '9' }), "#")
				why[w[:min(len(w), 60)]]++
			}
		}
		b.ReportMetric(float64(functions), "functions")
		b.ReportMetric(100*float64(have)/float64(functions), "%")
		b.ReportMetric(100*float64(pops)/float64(functions), "%pops")
		b.ReportMetric(made.Seconds()*1e3, "ms-once")
		b.ReportMetric(float64(time.Since(begin).Microseconds())/float64(functions), "us/function")
		for w, n := range why {
			if n*200 > functions-have {
				b.Logf("%d %s", n, w)
			}
		}
	}
}

// BenchmarkMoved looks which functions and blocks of files, of $MOVED_OF or bash, can be watched: of how many the
// first instructions can be moved.
func BenchmarkMoved(b *testing.B) {
	for _, name := range strings.Fields(cmp.Or(os.Getenv("MOVED_OF"), "/bin/bash")) {
		b.Run(name, func(b *testing.B) {
			f := openFile(b, name)
			for range b.N {
				names, err := f.Functions()
				if err != nil {
					b.Fatal(err)
				}
				x, err := f.ExitFinder(names, nil)
				if err != nil {
					b.Fatal(err)
				}
				begin := time.Now()
				e := x.EntryFinder()
				took := time.Since(begin)
				functions, have, blocks, armed := 0, 0, 0, 0
				parts := make(map[uint64]bool)
				for _, fn := range e.Functions() {
					switch _, err := e.Window(fn); {
					case err == nil:
						have++
					case errors.Is(err, ErrPart):
						parts[fn.Addr] = true
						continue
					}
					functions++
				}
				for _, fn := range e.Divide() {
					if parts[fn.Function.Addr] { // where its function leads to is that one's
						continue
					}
					for _, block := range fn.Blocks {
						if blocks++; block.Window != nil {
							armed++
						}
					}
				}
				b.ReportMetric(float64(functions), "functions")
				b.ReportMetric(100*float64(have)/float64(functions), "%")
				b.ReportMetric(float64(blocks), "blocks")
				b.ReportMetric(100*float64(armed)/float64(blocks), "%blocks")
				b.ReportMetric(took.Seconds()*1e3, "ms")
			}
		})
	}
}
