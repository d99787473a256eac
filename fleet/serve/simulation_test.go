package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"footfall/coverage"
	"footfall/fleet/client"
	"footfall/fleet/store"
	"footfall/fleet/store/clickhouse"
	"footfall/fleet/store/fixtures"
	"footfall/fleet/store/sqlite"
	"footfall/fleet/units"
)

// The size of the simulation; scripts/fleet-simulation has it larger.
var (
	simulatedAgents    = flag.Int("agents", 16, "how many agents TestSimulation has")
	simulatedFunctions = flag.Int("functions", 60, "of how many functions, of 20 lines each")
	simulatedWindows   = flag.Int("windows", 2, "in how many windows")
	simulatedKills     = flag.Int("kills", 4, "how often the server is killed")
)

const (
	simulatedReleases = 3
	simulatedTicks    = 2
	functionsOfUnit   = 20
	linesOfFunction   = 20
)

// serverStores is set where a test is run to be a server: sqlite:DIR or clickhouse:URL.
const serverStores = "FOOTFALL_TEST_SERVER"

// telling is set where it is run to tell a server something: which certificates are known is read once.
const telling = "FOOTFALL_TEST_TELLING"

func TestMain(m *testing.M) {
	if name := os.Getenv(serverStores); name != "" {
		go func() { // it ends with who has started it
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		stores, err := storesOf(name)
		var l net.Listener
		if err == nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err == nil {
			fmt.Println(l.Addr())
			err = Serve(context.Background(), l, Options{Stores: stores, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if server := os.Getenv(telling); server != "" {
		c, err := client.New(server, "")
		if err == nil {
			err = c.Tell(context.Background(), "b", "", nil)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func storesOf(name string) (store.Stores, error) {
	if dir, is := strings.CutPrefix(name, "sqlite:"); is {
		return sqlite.Dir(dir), nil
	}
	stores, err := clickhouse.Parse(strings.TrimPrefix(name, "clickhouse:"))
	if err != nil {
		return nil, err
	}
	return stores, nil
}

// A simulation is agents that count, in windows, for releases one after the other. All that they count follows from
// numbers, so none of it is kept.
type simulation struct {
	builds [simulatedReleases]store.Build
	now    time.Time
}

// A reading is what an agent sends. It starts again in the middle of some windows, as another instance.
type reading struct{ agent, release, window, life, tick int }

func newSimulation(functions int) *simulation {
	s := &simulation{now: time.Now().Truncate(time.Minute)}
	for release := range s.builds {
		b := &s.builds[release]
		b.ID, b.Release = fmt.Sprintf("build %d", release), fmt.Sprintf("%d.0", release)
		for i := range (functions + functionsOfUnit - 1) / functionsOfUnit {
			f := &coverage.File{Name: fmt.Sprintf("unit%d.c", i)}
			extra := 0
			if i%4 == 0 { // which is other code in each release
				extra = release
			}
			for line := range functionsOfUnit*linesOfFunction + extra {
				f.Lines = append(f.Lines, coverage.Line{Number: int32(line) + 1})
			}
			b.Units = append(b.Units, units.Of(f).Unit)
		}
	}
	return s
}

// random is a source of numbers that belong to something.
func random(parts ...int) *rand.Rand {
	h := fnv.New128a()
	for _, p := range parts {
		_ = binary.Write(h, binary.LittleEndian, int64(p))
	}
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])))
}

// lives is how many instances an agent has in a window.
func lives(agent, window int) int { return 1 + random(agent, window).IntN(2) }

// counted is what a unit has counted up to a reading since the window, or the instance, began; nil for nothing.
func (s *simulation) counted(r reading, unit int) []uint64 {
	numbers := random(r.agent, r.release, r.window, r.life, unit)
	var hits []uint64
	for range r.tick + 1 {
		if numbers.IntN(3) == 0 {
			continue
		}
		if hits == nil {
			hits = make([]uint64, s.builds[r.release].Units[unit].Counters)
		}
		for i := 0; i < len(hits); i += 2 { // the count of a line, and whether all of it ran
			if numbers.IntN(3) > 0 {
				hits[i] += numbers.Uint64N(1000)
				hits[i+1] |= hits[i] & 1
			}
		}
	}
	return hits
}

func (s *simulation) batch(r reading) *store.Batch {
	b := &store.Batch{
		Build: s.builds[r.release].ID, Window: s.now.Add(time.Duration(r.window-*simulatedWindows) * time.Hour), Seen: s.now,
		Instance: store.Instance{
			Host: fmt.Sprintf("host%d", r.agent%97), Boot: "boot", PID: 100 + r.agent, Start: s.now.Add(-time.Hour), Epoch: r.window*10 + r.life,
			Labels: map[string]string{"region": fmt.Sprint(r.agent % 3)},
		},
	}
	for i := range s.builds[r.release].Units {
		if hits := s.counted(r, i); hits != nil {
			b.Usage = append(b.Usage, store.Usage{Unit: s.builds[r.release].Units[i].Hash(), Hits: hits})
		}
	}
	return b
}

// readings are all, some of them twice, in a random order.
func (s *simulation) readings(agents int) (list []reading) {
	r := random(agents)
	for agent := range agents {
		for release := range simulatedReleases {
			for window := range *simulatedWindows {
				for life := range lives(agent, window) {
					for tick := range simulatedTicks {
						one := reading{agent, release, window, life, tick}
						list = append(list, one)
						if r.IntN(10) == 0 {
							list = append(list, one)
						}
					}
				}
			}
		}
	}
	r.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list
}

// truth is what all instances have counted in the end, of a release.
func (s *simulation) truth(agents, release int) [][]uint64 {
	sums := make([][]uint64, len(s.builds[release].Units))
	for i := range sums {
		sums[i] = make([]uint64, s.builds[release].Units[i].Counters)
	}
	for agent := range agents {
		for window := range *simulatedWindows {
			for life := range lives(agent, window) {
				for i := range sums {
					for k, h := range s.counted(reading{agent, release, window, life, simulatedTicks - 1}, i) {
						sums[i][k] += h
					}
				}
			}
		}
	}
	return sums
}

// A killedServer is one that is killed, and started again elsewhere.
type killedServer struct {
	t    *testing.T
	name string // of its stores
	cmd  *exec.Cmd
	to   atomic.Pointer[client.Client]
	peak int64 // KiB of memory
}

func (k *killedServer) start() {
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env = append(os.Environ(), serverStores+"="+k.name)
	k.cmd.Stderr = os.Stderr
	_, err := k.cmd.StdinPipe() // as long as we are there
	var out io.Reader
	if err == nil {
		out, err = k.cmd.StdoutPipe()
	}
	if err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		k.t.Fatal(err)
	}
	c, err := client.New("http://"+strings.TrimSpace(address), "")
	if err != nil {
		k.t.Fatal(err)
	}
	k.to.Store(c)
}

func (k *killedServer) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
	k.peak = max(k.peak, fixtures.PeakMemory(k.cmd.ProcessState))
}

// TestSimulation has agents send what they count, twice, in any order and in several lives, to a server that is killed
// again and again. What is there in the end is what they have counted.
func TestSimulation(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		simulate(t, "sqlite:"+t.TempDir(), 1, *simulatedAgents, func() {})
	})
	// Of a ClickHouse there are two servers, and it is killed, too.
	t.Run("clickhouse", func(t *testing.T) {
		db := fixtures.NewClickHouse(t)
		simulate(t, "clickhouse:"+db.Address, 2, max(1, *simulatedAgents/2), func() {
			db.Kill()
			db.Start()
		})
	})
	// Of two, one is killed, and the other goes on.
	t.Run("clickhouses", func(t *testing.T) {
		nodes := []*fixtures.ClickHouse{fixtures.NewClickHouse(t), fixtures.NewClickHouse(t)}
		kills := 0
		simulate(t, "clickhouse:"+nodes[0].Address+","+nodes[1].Address, 2, max(1, *simulatedAgents/2), func() {
			kills++
			node := nodes[kills%2]
			node.Kill()
			time.Sleep(2 * time.Second) // some is sent meanwhile
			node.Start()
		})
	})
}

// simulate sends to servers of the same stores, which are killed in turn; at every other time killMore is called.
func simulate(t *testing.T, stores string, n, agents int, killMore func()) {
	sim := newSimulation(*simulatedFunctions)
	servers := make([]*killedServer, n)
	for i := range servers {
		servers[i] = &killedServer{t: t, name: stores}
		servers[i].start()
		defer servers[i].kill()
	}
	for i := range sim.builds {
		if err := servers[i%n].to.Load().Tell(t.Context(), sim.builds[i].ID, sim.builds[i].Release, sim.builds[i].Units); err != nil {
			t.Fatal(err)
		}
	}
	list := sim.readings(agents)
	began := time.Now()
	var next, done atomic.Int64
	var senders sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		senders.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(list)) {
					return
				}
				b := sim.batch(list[i])
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				// Of a server that is killed it is not known whether it has taken it.
				err := client.Persist(ctx, func() error { return servers[int(i)%n].to.Load().Push(ctx, b) })
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	kills := 0
	for ; kills < *simulatedKills; kills++ {
		due := int64(len(list)) * int64(kills+1) / int64(*simulatedKills+1)
		for done.Load() < due && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		if kills%2 == 1 {
			killMore()
		}
		server := servers[kills%n]
		server.kill()
		server.start()
	}
	senders.Wait()
	took := time.Since(began)
	peak := int64(0)
	for _, server := range servers {
		server.kill()
		peak = max(peak, server.peak)
	}
	t.Logf("%d batches of %d agents in %v, %.0f a second, %d kills; the server had up to %d MB", len(list), agents,
		took.Round(time.Millisecond), float64(len(list))/took.Seconds(), kills, peak>>10)
	sim.compare(t, stores, agents)
}

// compare has what is in a store be the truth.
func (s *simulation) compare(t *testing.T, name string, agents int) {
	t.Helper()
	stores, err := storesOf(name)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := stores.Open(t.Context(), store.DefaultProject)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for release := range s.builds {
		b := &s.builds[release]
		want := make(map[store.Hash][]uint64)
		for i, sum := range s.truth(agents, release) {
			want[b.Units[i].Hash()] = sum
		}
		began := time.Now()
		got := make(map[store.Hash][]uint64)
		if err := opened.Totals(t.Context(), &store.Query{Releases: []string{b.Release}}, true, func(total store.Total) error {
			got[total.Unit.Hash()] = total.Hits
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("release %s was asked for in %v", b.Release, time.Since(began).Round(time.Millisecond))
		if !maps.EqualFunc(want, got, slices.Equal) {
			t.Errorf("release %s: the counts are not those that were sent", b.Release)
		}
	}
}
