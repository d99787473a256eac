package tool

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/formats/gcov/getopt"
)

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// merge adds directories. Gcov-tool adds two; more are added from left to
// right, as if the result of each step were the first directory of the next.
func (t *tool) merge(args []string) int {
	out := "merged_profile"
	var weights []uint32
	g := getopt.Parser{Prog: t.command("merge"), Short: "vo:w:", Long: []getopt.Option{getopt.Flag("verbose", 'v'), getopt.Value("output", 'o'), getopt.Value("weight", 'w')}, Stderr: t.Stderr, Args: args}
	if t.Version == 0 {
		g.Long = append(g.Long, getopt.Flag("exact", 'e'))
	}
	for opt, arg := g.Next(); opt != 0; opt, arg = g.Next() {
		switch opt {
		case 'v':
			t.verbose = true
		case 'o':
			out = arg
		case 'e':
			t.exact = true
		case 'w':
			if !t.parseWeights(arg, &weights) {
				return t.fatal("weights need to be non-negative")
			}
		default:
			return t.misused("merge")
		}
	}
	if n := len(g.Operands); n < 2 || t.Version != 0 && n != 2 {
		return t.misused("merge")
	}
	dirs := make([]*dataDir, len(g.Operands))
	coverage.Parallel(len(dirs), func(i int) { dirs[i] = listData(g.Operands[i], t.Version == 0) })
	return t.mergeDirs(dirs, weights, out)
}

// mergeDirs merges file by file, several at a time: what is written depends
// only on the files of one name.
func (t *tool) mergeDirs(dirs []*dataDir, weights []uint32, out string) int {
	var jobs []*mergeJob
	byName := make(map[string]*mergeJob)
	for i, d := range dirs {
		for _, name := range d.names {
			j := byName[name]
			if j == nil {
				j = &mergeJob{tool: t, name: name, weights: weights}
				byName[name] = j
				jobs = append(jobs, j)
			}
			j.files = append(j.files, mergeFile{dir: i, path: filepath.Join(d.dir, name)})
		}
	}
	coverage.Parallel(len(jobs), func(i int) { jobs[i].run() })
	if status, ok := t.judge(dirs, byName); !ok {
		return status
	}
	t.finish(jobs)
	names := make([]string, len(jobs))
	contents := make([][]byte, len(jobs))
	coverage.Parallel(len(jobs), func(i int) {
		names[i] = jobs[i].name
		if j := jobs[i]; j.old != nil {
			contents[i] = j.old.Encode()
		} else if j.counts != nil {
			contents[i] = j.counts.Encode()
			if n := len(j.replaced); n > len(contents[i]) { // written over, not cut
				contents[i] = append(contents[i], j.replaced[len(contents[i]):]...)
			}
		}
	})
	for _, j := range jobs {
		t.say(&j.written)
	}
	return t.write(out, names, contents)
}

// judge prints what was said of the files, directory by directory, and tells
// whether there is something to write.
func (t *tool) judge(dirs []*dataDir, jobs map[string]*mergeJob) (status int, ok bool) {
	found := false
	for i, d := range dirs {
		usable := false
		for _, name := range d.names {
			f := jobs[name].of(i)
			t.say(&f.read)
			usable = usable || f.usable
		}
		found = found || usable
		if d.err != nil {
			fmt.Fprintln(t.Stderr, d.err)
		}
		if !usable && t.Version == 0 && d.err == nil {
			fmt.Fprintf(t.Stderr, "footfall: no data files (.gcda) that can be used in %s\n", d.dir)
		}
		if !usable && (t.Version == 0 || !t.Version.AtLeast(130)) {
			return 1, false
		}
		for _, name := range slices.Backward(d.names) {
			t.say(&jobs[name].of(i).merged)
		}
	}
	if !found && t.verbose {
		fmt.Fprintln(t.Stdout, "no profile files were merged")
	}
	return 0, found
}

// finish brings the summaries into the form in which the version writes them.
func (t *tool) finish(jobs []*mergeJob) {
	var largest int64
	for _, j := range jobs {
		if j.counts != nil {
			largest = max(largest, j.counts.Largest())
		}
	}
	for _, j := range jobs {
		if j.counts != nil {
			t.complete(j.counts, largest)
		}
	}
}

// complete makes counts what gcov-tool writes.
func (t *tool) complete(c *gcov.Counts, largest int64) {
	v := c.Version
	if v.ObjectRuns() {
		runs, sum := objectSummary(c)
		if !v.OmitsZeros() && !t.exact { // which forgets the runs
			runs, sum = 1, uint32(largest)
		}
		c.Summaries = []gcov.Summary{{Words: []uint32{runs, sum}}}
	}
	if len(c.Trailer) != 8 || !c.FromClang() {
		c.Trailer = make([]byte, 4)
	}
	if !t.exact {
		c.BigEndian = false
	}
	c.OrderValues()
	c.OmitZeros()
}

func objectSummary(c *gcov.Counts) (runs, sum uint32) {
	for _, s := range c.Summaries {
		if !s.Program && len(s.Words) > 1 {
			runs, sum = s.Words[0], s.Words[1]
		}
	}
	return runs, sum
}

// A mergeJob merges the files of one name.
type mergeJob struct {
	*tool
	name    string
	weights []uint32
	files   []mergeFile // at most one of each directory

	truncates bool // what is written later replaces what was written before

	counts   *gcov.Counts       // the result
	old      *gcov.LegacyCounts // the result of .da files
	replaced []byte             // a result that was written over
	written  said
	buf      []byte
}

// A mergeFile is the file of one directory, and what was said of it.
type mergeFile struct {
	dir          int
	path         string
	read, merged said
	usable       bool
}

func (j *mergeJob) of(dir int) *mergeFile {
	i, _ := slices.BinarySearchFunc(j.files, dir, func(f mergeFile, dir int) int { return f.dir - dir })
	return &j.files[i]
}

func (j *mergeJob) run() {
	for i := range j.files {
		f := &j.files[i]
		if j.verbose {
			f.read.errorf("reading file: %s\n", j.name)
		}
		b, err := readInto(f.path, j.buf)
		j.buf = b
		if err != nil {
			f.read.errorf("%s:cannot open\n", j.name)
			continue
		}
		w := weight(j.weights, f.dir)
		if strings.HasSuffix(j.name, ".da") {
			j.addOld(b, f, max(w, 1))
			continue
		}
		if j.counts != nil && !j.verbose && j.counts.AddBytes(b, w) {
			f.usable = true
			continue
		}
		c := j.decode(j.name, b, j.counts, &f.read)
		if c == nil {
			continue
		}
		// ReadCounts keeps parts of the bytes, and the buffer is used again.
		c.Trailer = bytes.Clone(c.Trailer)
		f.usable = true
		j.add(c, f, w)
	}
	j.buf = nil
}

// addOld adds a .da file w times.
func (j *mergeJob) addOld(b []byte, f *mergeFile, w uint32) {
	c, err := gcov.ReadLegacyCounts(bytes.Clone(b))
	if err != nil {
		f.read.errorf("%s: %v; the file is left out\n", j.name, err)
		return
	}
	f.usable = true
	for _, values := range c.All() {
		for i := range values {
			values[i] *= int64(w)
		}
	}
	if j.old == nil {
		j.old = c
	} else if err := j.old.Merge(c); err != nil {
		f.merged.errorf("%s: %v; the file is left out\n", j.name, err)
	}
}

// add adds a file to the result so far.
func (j *mergeJob) add(c *gcov.Counts, f *mergeFile, w uint32) {
	switch {
	case j.counts == nil && f.dir == 0:
		j.counts = c
		if w > 1 {
			j.again(c, w-1)
		}
	case j.counts == nil:
		j.counts = c
		j.again(c, w-1)
	case len(j.counts.Functions) != len(c.Functions):
		f.merged.errorf("mismatched profiles in %s (%d functions vs %d functions)\n", j.name, len(j.counts.Functions), len(c.Functions))
		j.again(c, w-1)
		j.overwrite(c)
	default:
		j.counts.AddWeighted(c, w, func(i int, cfg bool) {
			if cfg {
				f.merged.errorf("in %s, cfg_checksum mismatch, skipping\n", j.name)
				return
			}
			f.merged.errorf("in %s, function %d differs (ident %#x vs %#x), skipping\n", j.name, i, j.counts.Functions[i].Ident, c.Functions[i].Ident)
		})
	}
}

// again adds w times the counts to themselves. Gcov-tool then counts the runs
// double, even where w is 0.
func (j *mergeJob) again(c *gcov.Counts, w uint32) {
	if j.exact && w == 0 {
		return
	}
	c.AddRuns(c)
	c.Scale(func(x int64) int64 { return x + x*int64(w) })
}

// overwrite writes c where the result was written before, as a program does
// that finds an old file.
func (j *mergeJob) overwrite(c *gcov.Counts) {
	old := j.counts
	if j.truncates {
		j.counts = c
		return
	}
	if v := c.Version; v.HasObjectChecksum() && old.Checksum != c.Checksum || !v.HasObjectChecksum() && old.Stamp != c.Stamp {
		what := "checksum"
		if !v.HasObjectChecksum() {
			what = "timestamp"
		}
		j.written.errorf("libgcov profiling error:%s:overwriting an existing profile data with a different %s\n", j.name, what)
		j.complete(old, old.Largest())
		j.replaced = old.Encode()
		j.counts = c
		return
	}
	i, behind := 0, false // the function that does not match; it does not because the file ends
	for i < min(len(old.Functions), len(c.Functions)) {
		f, g := old.Functions[i], &c.Functions[i]
		missing := len(g.Counters) - len(f.Counters)
		if missing < 0 { // what is left stands where the next function should
			f.Counters = f.Counters[:len(g.Counters)]
		}
		if !f.Matches(g, c.Version) {
			head := *g
			head.Counters = g.Counters[:min(len(f.Counters), len(g.Counters))]
			behind = missing > 0 && i == len(old.Functions)-1 && f.Matches(&head, c.Version)
			break
		}
		i++
		if missing < 0 {
			break
		}
	}
	j.written.errorf("libgcov profiling error:%s:Merge mismatch for function %d\n", j.name, i)
	if behind && c.Version.NoticesCuts() {
		j.written.errorf("libgcov profiling error:%s:Error writing\n", j.name)
	}
}
