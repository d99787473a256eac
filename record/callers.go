//go:build linux

package record

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	pprof "github.com/google/pprof/profile"

	"footfall/demangle"
	"footfall/hook/ftrace"
	"footfall/hook/patch"
	"footfall/output"
	"footfall/process"
	"footfall/process/target"
	"footfall/profile"
	"footfall/trace"
)

// CallersOptions are what footfall callers was asked for.
type CallersOptions struct {
	Depth, Top, Buffer int
	DepthGiven         bool
	Duration           time.Duration
	Outputs            []string
	Watch              bool
	// Ways are the names of ways into functions that are permitted; none: all.
	Ways []string

	Stdout, Stderr io.Writer
}

// A callerOutput is a format.
type callerOutput struct {
	output.Format
	print func(*callers, io.Writer) error
}

// callerOutputs are the known ones.
var callerOutputs = []callerOutput{
	{output.Format{Name: "text"}, (*callers).printText},
	{output.Format{Name: "json"}, (*callers).printJSON},
	{output.Format{Name: "html", Kind: output.Bytes}, (*callers).printHTML},
	{output.Format{Name: "pprof", Kind: output.Bytes}, (*callers).printPprof},
	{output.Format{Name: "collapsed"}, (*callers).printCollapsed},
}

// CallerFormats are those of chains of callers.
func CallerFormats() []output.Format {
	var list []output.Format
	for _, o := range callerOutputs {
		list = append(list, o.Format)
	}
	return list
}

// Check tells what of the options makes no sense.
func (o *CallersOptions) Check() error {
	switch {
	case o.Depth < 1 || o.Depth > patch.MaxChainDepth:
		return fmt.Errorf("--depth %d: it must be from 1 to %d", o.Depth, patch.MaxChainDepth)
	case o.Duration < 0:
		return errors.New("--duration must not be negative")
	case o.Buffer < 1 || o.Buffer > 1024 || o.Buffer&(o.Buffer-1) != 0:
		return fmt.Errorf("--buffer %d: it must be a power of 2 from 1 to 1024", o.Buffer)
	}
	if _, err := parseWays(o.Ways); err != nil {
		return err
	}
	_, err := output.Parse(o.Outputs, CallerFormats(), output.Stdout{W: o.Stdout})
	return err
}

// Callers counts the callers of a function of a process, or of the kernel.
func Callers(o *CallersOptions, target, function string) error {
	if err := o.Check(); err != nil {
		return output.UsageError(err)
	}
	if target == "kernel" && len(o.Ways) > 0 {
		return output.UsageError(errors.New("the kernel's functions are counted by the kernel's tracers alone: --way is for those of programs"))
	}
	if target == "kernel" {
		return o.countKernel(function)
	}
	if err := patch.Known(); err != nil {
		return err
	}
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	if ok, err := o.countedTables(p, function); ok || err != nil {
		return err
	}
	s, err := newSelection([]string{function}, nil, nil, nil)
	if err != nil {
		return err
	}
	ways, err := parseWays(o.Ways)
	if err != nil {
		return err
	}
	t := newProgram(p, s, ways, o.settings(), io.Discard)
	t.chains.followed = true
	chosen, none := t.find(awaitAll)
	t.stderr = o.Stderr
	without := (*noSites)(nil)
	roomless := errors.As(none, &without)
	if none != nil && !roomless {
		t.images.Close()
		return none
	}
	if roomless || len(o.Ways) == 0 && chosen.onlyMoved() { // what it counts itself costs nothing more
		if ok, err := o.countedCalls(p, function); ok || err != nil {
			t.images.Close()
			return err
		}
	}
	return o.count(t, chosen, none, function)
}

// settings are those of chains.
func (o *CallersOptions) settings() *settings {
	return &settings{mode: trace.Chains, follow: true, buffer: o.Buffer, chainDepth: o.Depth}
}

// count counts the callers of the functions that were chosen in a program, until something ends it.
func (o *CallersOptions) count(t *program, chosen choice, none error, function string) (err error) {
	ctx, cancel := untilSignal()
	defer cancel()
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.open(&chosen, none, false); err != nil {
		return err
	}
	c := o.newCallers(function)
	c.p, c.program, c.images = t.p, t, t.images.Present
	if list := slices.Concat(chosen.sites, chosen.probes); len(list) > 0 {
		c.function = list[0].Name()
	}
	if t.sites != nil {
		c.notices, c.unloaded = t.sites.session.LoadNotifications(), newUnloaded(t.sites)
		t.gone = c.forget
	}
	c.sayFunctions(t, chosen, function, o.Stderr)
	if why := o.wait(ctx, c, t.maintain, c.read); why != nil {
		fmt.Fprintf(o.Stderr, "footfall: process %d: %v\n", t.p.PID, why)
	}
	if err := errors.Join(t.stop(), c.finish(c.read)); err != nil {
		return err
	}
	recorded, others := t.children()
	sayChildren(recorded, others, o.Stderr)
	c.sayLost(t.lost(), o.Stderr)
	return o.write(c)
}

// sayFunctions says whose callers are counted.
func (c *callers) sayFunctions(t *program, chosen choice, function string, stderr io.Writer) {
	if chosen.size() == 0 {
		fmt.Fprintf(stderr, "footfall: no function fits %q yet: waiting for a library that has it\n", function)
	}
	many := 0
	if t.probes != nil {
		many = len(chosen.probes)
	}
	for _, f := range chosen.sites {
		if why, skipped := t.sites.session.Skipped[f.EntrySite]; skipped {
			fmt.Fprintf(stderr, "footfall: %s is not counted: %s\n", f.Name(), why)
		} else {
			many++
		}
	}
	c.sayMany(many, function, stderr)
	if t.sites != nil {
		sayLeading(t.sites.session, stderr)
	}
}

// newCallers returns chains, none yet, of callers of a function.
func (o *CallersOptions) newCallers(function string) *callers {
	return &callers{function: function, images: func() []*target.Image { return nil }, top: o.Top, depth: o.Depth, places: make(map[uint64][]place), begin: time.Now()}
}

// read takes the chains that have been counted so far.
func (c *callers) read() error {
	c.chains, c.way = nil, ""
	t := c.program
	if t.sites != nil {
		chains, way := c.unloaded.all(t.images.Present())
		c.chains, c.way = chains, wayOf(way)
	}
	if t.probes != nil {
		chains, err := t.probes.Chains()
		if err != nil {
			return err
		}
		c.chains = append(c.chains, chains...)
		sortChains(c.chains)
		c.way = cmp.Or(c.way, wayOf(t.chains.rows.way(c.chains)))
	}
	if c.way == "" && t.sites != nil && c.depth > 1 && len(c.chains) > 0 {
		c.way = "where nothing describes the callers: compile with -fno-omit-frame-pointer"
	}
	return nil
}

// start begins to measure the time.
func (c *callers) start() { c.begin = time.Now() }

// wayOf says how callers were found; "" if there was nothing to find.
func wayOf(w patch.ChainWay) string {
	var ways []string
	for i, way := range []bool{w.Described, w.Pointers, w.Traced} {
		if way {
			ways = append(ways, []string{".eh_frame", "frame pointers", "traced callers"}[i])
		}
	}
	switch len(ways) {
	case 0:
		return ""
	case 3:
		return "by " + ways[0] + ", " + ways[1] + " and " + ways[2]
	}
	return "by " + strings.Join(ways, " and ")
}

// sayLeading says that more is traced than what was asked for, or why it is not.
func sayLeading(session *patch.Session, stderr io.Writer) {
	n := session.Leading()
	if err := session.Untraced; err != nil {
		functions := "functions"
		if n > 0 {
			functions = "some functions"
		}
		fmt.Fprintf(stderr, "footfall: %s with neither .eh_frame nor frame pointers are left out of chains: %v\n", functions, err)
	}
	if n > 0 {
		const neither = "neither .eh_frame nor a frame pointer"
		fmt.Fprintf(stderr, "footfall: %s traced to find callers; calls that had begun before end their chains\n",
			output.Count(n, "function has "+neither+", and is", "functions have "+neither+", and are"))
	}
}

// sayMany says that several functions fit, which then go by the pattern.
func (c *callers) sayMany(functions int, pattern string, stderr io.Writer) {
	if functions > 1 {
		c.function = pattern
		fmt.Fprintf(stderr, "footfall: %d functions fit %q; their callers are counted together\n", functions, pattern)
	}
}

// sayLost says how many calls found no room, and whether there were none.
func (c *callers) sayLost(lost losses, stderr io.Writer) {
	if n := lost[dropped]; n > 0 {
		fmt.Fprintf(stderr, "footfall: %d calls are missing: the table of chains was full; use a larger --buffer or a smaller --depth\n", n)
	}
	if n := lost[placeless]; n > 0 {
		fmt.Fprintf(stderr, "footfall: %d calls are missing: more than 1024 threads at once\n", n)
	}
	if n := lost[pointerless]; n > 0 {
		fmt.Fprintf(stderr, "footfall: %d calls are missing, of threads that have no thread pointer\n", n)
	}
	if lost[damaged] > 0 {
		fmt.Fprintf(stderr, "footfall: the program has written over the memory for chains: what cannot be right is left out, other counts may be wrong, too; look for writes through bad pointers\n")
	}
	if len(c.chains) == 0 {
		fmt.Fprintf(stderr, "footfall: %s was not called%s\n", c.function, whySilent(c.p))
	}
}

// finish reads the chains as they are now.
func (c *callers) finish(read func() error) error {
	c.duration = time.Since(c.begin)
	return read()
}

// wait waits until the counting is to end, and calls update often; with --watch
// it shows every second what is read. Its result says why it ended if nobody
// asked for it.
func (o *CallersOptions) wait(ctx context.Context, c *callers, update, read func() error) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
			if o.Watch {
				if err := c.show(o.Stdout, read); err != nil {
					return err
				}
			}
		case <-c.notices:
			if err := update(); err != nil {
				return err
			}
		case <-time.After(50 * time.Millisecond):
			if c.p != nil && c.p.Check() != nil {
				return c.p.Check()
			}
			if err := update(); err != nil {
				return err
			}
		}
	}
}

// clearScreen makes a terminal empty.
const clearScreen = "\x1b[H\x1b[2J"

// show shows the chains in place of what the terminal shows.
func (c *callers) show(stdout io.Writer, read func() error) error {
	if err := c.finish(read); err != nil {
		return err
	}
	if err := output.Control(stdout, clearScreen); err != nil {
		return err
	}
	return c.printText(stdout)
}

func (o *CallersOptions) write(c *callers) error {
	var failed []error
	requests, err := output.Parse(o.Outputs, CallerFormats(), output.Stdout{W: o.Stdout})
	if err != nil {
		return err
	}
	for _, r := range requests {
		i := slices.IndexFunc(callerOutputs, func(out callerOutput) bool { return out.Name == r.Format })
		print := callerOutputs[i].print
		if r.File != "-" {
			failed = append(failed, output.Write(r.File, func(w io.Writer) error { return print(c, w) }))
			continue
		}
		if o.Watch && r.Format == "text" {
			failed = append(failed, output.Control(o.Stdout, clearScreen)) // in place of the last one
		}
		failed = append(failed, print(c, o.Stdout))
	}
	return errors.Join(failed...)
}

// callers are chains that reached a function.
type callers struct {
	p        *process.Process
	function string
	way      string // how callers were found
	images   func() []*target.Image
	chains   []trace.Chain
	places   map[uint64][]place
	top      int
	begin    time.Time
	duration time.Duration
	notices  <-chan struct{} // of libraries: a thread waits for an update
	unloaded *unloaded       // nil: those are not told apart
	program  *program        // nil: the kernel, or one that counts by itself
	symbols  ftrace.Symbols  // of the kernel
	depth    int             // of chains, at most
}

// A place is where a call is. Inlined functions are callers of their own.
type place struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Image    string `json:"image,omitempty"`
	Address  uint64 `json:"-"`
}

// at returns the places of the call before a return address, the innermost
// first.
func (c *callers) at(address uint64) []place {
	if places, ok := c.places[address]; ok {
		return places
	}
	key, images := address, c.images
	if c.unloaded != nil && address >= firstNumber {
		in := c.unloaded.code[address]
		address, images = in.address, func() []*target.Image { return []*target.Image{in.image} }
	} else if c.p != nil && c.p.ReturnsFromSignal(address) {
		c.places[key] = []place{{Function: "(signal)", Address: address}}
		return c.places[key]
	}
	places := []place{{Function: fmt.Sprintf("%#x", address), Address: address}}
	if symbol := c.symbols.At(address - 1); symbol != nil {
		places[0].Function, places[0].Image = symbol.Name, symbol.Module
	}
	for _, image := range images() {
		if !image.Contains(address - 1) {
			continue
		}
		name := ""
		if fn, _ := image.Function(address - 1); fn != nil {
			name = demangle.Full(fn.Name)
		} else {
			name = fmt.Sprintf("%s+%#x", filepath.Base(image.Path), address-image.Start)
		}
		frames := image.Frames(address - 1)
		places = []place{{Function: name, Image: image.Path, Address: address}}
		if len(frames) > 0 {
			places = places[:0]
		}
		for i, f := range frames {
			at := place{Function: demangle.Full(f.Function), File: f.File, Line: f.Line, Image: image.Path, Address: address}
			if i == len(frames)-1 {
				at.Function = name
			}
			places = append(places, at)
		}
		break
	}
	c.places[key] = places
	return places
}

// forget is called when images have been unloaded.
func (c *callers) forget(gone []*target.Image) {
	c.unloaded.take(gone)
	for address := range c.places {
		if slices.ContainsFunc(gone, func(i *target.Image) bool { return i.Contains(address - 1) }) {
			delete(c.places, address)
		}
	}
}

// chain returns the places of a chain, the nearest caller first.
func (c *callers) chain(addresses []uint64) []place {
	var all []place
	for _, a := range addresses {
		all = append(all, c.at(a)...)
	}
	return all
}

func (c *callers) total() (n uint64) {
	for _, chain := range c.chains {
		n += chain.Count
	}
	return n
}

func (c *callers) printText(w io.Writer) error {
	b := bufio.NewWriter(w)
	total := c.total()
	when := "since the program began"
	if c.duration > 0 {
		when = "in " + c.duration.Round(100*time.Millisecond).String()
	}
	fmt.Fprintf(b, "%s: %s by %s %s", output.Printable(c.function), output.Count(int(total), "call", "calls"), output.Count(len(c.chains), "chain", "chains"), when)
	if c.way != "" {
		fmt.Fprintf(b, ", %s", c.way)
	}
	b.WriteString("\n")
	for i, chain := range c.chains {
		if c.top > 0 && i == c.top {
			fmt.Fprintf(b, "\n... and %d more; --top 0 shows all\n", len(c.chains)-i)
			break
		}
		fmt.Fprintf(b, "\n%12d  %5.1f %%", chain.Count, 100*float64(chain.Count)/float64(total))
		for n, p := range c.chain(chain.Addresses) {
			if n > 0 {
				fmt.Fprintf(b, "\n%21s", "")
			}
			fmt.Fprintf(b, "  %s", output.Printable(p.Function))
			if p.File != "" {
				fmt.Fprintf(b, "  %s:%d", output.Printable(filepath.Base(p.File)), p.Line)
			} else if p.Image != "" {
				fmt.Fprintf(b, "  (%s)", output.Printable(filepath.Base(p.Image)))
			}
		}
		if end := c.endOf(chain.Addresses); end != "" {
			fmt.Fprintf(b, "\n%21s  (ends here: %s)", "", end)
		}
		b.WriteString("\n")
	}
	return b.Flush()
}

func (c *callers) printJSON(w io.Writer) error {
	type line struct {
		Chain []place `json:"chain"`
		Count uint64  `json:"count"`
		End   string  `json:"end,omitempty"`
	}
	lines := []line{}
	for _, chain := range c.chains {
		lines = append(lines, line{c.chain(chain.Addresses), chain.Count, c.endOf(chain.Addresses)})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(lines)
}

func (c *callers) printCollapsed(w io.Writer) error {
	b := bufio.NewWriter(w)
	counts := make(map[string]uint64) // several chains differ by lines only
	var lines []string
	for _, chain := range c.chains {
		names := []string{strings.ReplaceAll(c.function, ";", ":")}
		for _, p := range c.chain(chain.Addresses) {
			names = append(names, strings.ReplaceAll(p.Function, ";", ":"))
		}
		slices.Reverse(names)
		line := strings.Join(names, ";")
		if _, known := counts[line]; !known {
			lines = append(lines, line)
		}
		counts[line] += chain.Count
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for _, line := range lines {
		fmt.Fprintf(b, "%s %d\n", line, counts[line])
	}
	return b.Flush()
}

// printHTML writes a page where the callers stand on the function.
func (c *callers) printHTML(w io.Writer) error {
	return profile.PrintChains(w, "callers of "+c.function, true, c.profile())
}

func (c *callers) printPprof(w io.Writer) error { return c.profile().Write(w) }

func (c *callers) profile() *pprof.Profile {
	p := &pprof.Profile{
		SampleType:    []*pprof.ValueType{{Type: "calls", Unit: "count"}},
		TimeNanos:     time.Now().Add(-c.duration).UnixNano(),
		DurationNanos: int64(c.duration),
	}
	functions := make(map[[2]string]*pprof.Function)
	locations := make(map[uint64]*pprof.Location)
	location := func(address uint64, places []place) *pprof.Location {
		if l := locations[address]; l != nil {
			return l
		}
		l := &pprof.Location{ID: uint64(len(locations) + 1), Address: address}
		for _, at := range places {
			key := [2]string{at.Function, at.File}
			fn := functions[key]
			if fn == nil {
				fn = &pprof.Function{ID: uint64(len(functions) + 1), Name: at.Function, SystemName: at.Function, Filename: at.File}
				functions[key] = fn
				p.Function = append(p.Function, fn)
			}
			l.Line = append(l.Line, pprof.Line{Function: fn, Line: int64(at.Line)})
		}
		if c.unloaded != nil && address >= firstNumber {
			l.Address = places[0].Address
		}
		locations[address] = l
		p.Location = append(p.Location, l)
		return l
	}
	for _, chain := range c.chains {
		sample := &pprof.Sample{Value: []int64{int64(chain.Count)}, Location: []*pprof.Location{location(0, []place{{Function: c.function}})}}
		for _, a := range chain.Addresses {
			sample.Location = append(sample.Location, location(a, c.at(a)))
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}
