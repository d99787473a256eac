package gcov

// FinishClangRun is FinishRun for counts of a program that Clang compiled. Its
// runtime writes the summary last, tells only the runs, closes with two words,
// and writes zeros out:
//
//	402* (to Clang 9)   a1000000  9 words, the third is the runs; a3000000, empty
//	408* (Clang 11)     a3000000  0, 0, runs
//	from B11* (22)      a1000000  runs, 0
func (c *Counts) FinishClangRun() {
	end := len(c.Functions)
	switch {
	case c.Version.ObjectRuns():
		c.Summaries = []Summary{{Words: []uint32{1, 0}, Before: end}}
	case c.Version.HasCfgChecksum():
		c.Summaries = []Summary{{Program: true, Words: []uint32{0, 0, 1}, Before: end}}
	default:
		c.Summaries = []Summary{{Words: []uint32{0, 0, 1, 0, 0, 0, 0, 0, 0}, Before: end}, {Program: true, Before: end}}
		for i := range c.Functions {
			c.Functions[i].named = true
		}
	}
	c.Trailer = make([]byte, clangTrailer)
}

// clangTrailer is how many bytes close a data file of Clang; GCC writes 4.
const clangTrailer = 8

// FromClang tells whether Clang's runtime wrote the counts, or would have.
func (c *Counts) FromClang() bool { return len(c.Trailer) == clangTrailer }
