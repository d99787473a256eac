package tool

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/formats/gcov/getopt"
)

// rewrite scales the counts of a directory.
func (t *tool) rewrite(args []string) int {
	out := "rewrite_profile"
	var largest int64 // what the largest count shall become
	s := scale{n: 1, d: 1}
	scaled := false
	g := getopt.Parser{Prog: t.command("rewrite"), Short: "vo:s:n:", Long: []getopt.Option{getopt.Flag("verbose", 'v'), getopt.Value("output", 'o'), getopt.Value("scale", 's'), getopt.Value("normalize", 'n')}, Stderr: t.Stderr, Args: args}
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
		case 'n':
			if scaled {
				io.WriteString(t.Stderr, "scaling cannot co-exist with normalization, skipping\n")
			} else {
				largest, _, _ = scanLong(arg)
			}
		case 's':
			scaled = true
			if !s.parse(arg) {
				io.WriteString(t.Stderr, "incorrect format in scaling, using 1/1\n")
			}
			if s.f < 0 {
				return t.fatal("scale needs to be non-negative")
			}
			if largest != 0 {
				io.WriteString(t.Stderr, "normalization cannot co-exist with scaling\n")
				largest = 0
			}
		default:
			return t.misused("rewrite")
		}
	}
	if len(g.Operands) != 1 {
		return t.misused("rewrite")
	}
	d := listData(g.Operands[0], false)
	if d.err != nil {
		fmt.Fprintln(t.Stderr, d.err)
		return 1
	}
	files := t.read(d)
	if len(files) == 0 {
		if t.Version == 0 {
			fmt.Fprintf(t.Stderr, "footfall: no data files (.gcda) that can be used in %s\n", d.dir)
		}
		return 1
	}
	// Gcov-tool never gets to -n: without -s it takes the factor 1/1.
	switch {
	case largest != 0 && t.exact:
		s = scale{f: float32(largest) / float32(largestOf(files))}
	case largest != 0 && t.Version == 0:
		fmt.Fprintln(t.Stderr, "footfall: gcov-tool does nothing for -n, and so nothing was scaled: --exact does what -n says")
	}
	return t.rewriteFiles(files, s, out)
}

func largestOf(files []dataFile) int64 {
	var largest int64
	for _, f := range files {
		largest = max(largest, f.counts.Largest())
	}
	return largest
}

func (t *tool) rewriteFiles(files []dataFile, s scale, out string) int {
	if t.verbose {
		fmt.Fprintf(t.Stdout, "scale_factor is %f or %d/%d\n", s.f, s.printN(), s.d)
	}
	coverage.Parallel(len(files), func(i int) { files[i].counts.Scale(s.apply) })
	largest := largestOf(files)
	names := make([]string, len(files))
	contents := make([][]byte, len(files))
	coverage.Parallel(len(files), func(i int) {
		c := files[i].counts
		t.complete(c, largest)
		names[i], contents[i] = files[i].name, c.Encode()
	})
	return t.write(out, names, contents)
}

// A scale is a factor: n/d, or f where d is 0.
type scale struct {
	f    float32
	n, d int
}

func (s scale) printN() int {
	if s.d == 0 {
		return 0
	}
	return s.n
}

// parse reads "1/2" or "0.5". It returns false for neither, which leaves the
// factor as it was.
func (s *scale) parse(arg string) bool {
	if n, rest, ok := scanInt(arg); ok && strings.HasPrefix(rest, "/") {
		if d, _, ok := scanInt(rest[1:]); ok {
			s.n, s.d = n, d
			if n < 0 || d <= 0 {
				s.n, s.d = 1, 1
				return false
			}
			return true
		}
	}
	for end := len(arg); end > 0; end-- { // the longest beginning that is a number
		if f, err := strconv.ParseFloat(strings.TrimSpace(arg[:end]), 32); err == nil {
			s.f, s.d = float32(f), 0
			return true
		}
	}
	return false
}

// apply scales one count, in the arithmetic of gcov-tool.
func (s scale) apply(x int64) int64 {
	if s.d == 0 {
		return int64(float32(x) * s.f)
	}
	return (x + int64(s.d)/2) / int64(s.d) * int64(s.n)
}
