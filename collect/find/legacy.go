package find

import (
	"errors"
	"strings"

	"footfall/formats/gcov"
	"footfall/input"
	"footfall/report/source"
)

// Compilers before GCC 3.4 write .bb and .bbg in place of notes, and .da in
// place of data. All three are kept in the working directory of the compiler,
// so that there is nothing to pair.

// legacyFile takes a .bb or .da file. Other programs have files of such names
// too: a .bb counts only with a .bbg beside it.
func (s *search) legacyFile(name string, kind fileKind) {
	stem := name[:strings.LastIndexByte(name, '.')]
	bb, bbg, da := input.IsFile(stem+".bb"), input.IsFile(stem+".bbg"), input.IsFile(stem+".da")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[stem+gcov.LegacySuffix] {
		return
	}
	problem := func(file, text string) {
		s.seen[stem+gcov.LegacySuffix] = true
		s.problems = append(s.problems, source.NewProblem(source.NoNotes, file, errors.New(text)))
	}
	switch {
	case bb && bbg && kind&notesKind != 0:
		s.seen[stem+gcov.LegacySuffix] = true
		s.legacy = append(s.legacy, stem)
	case bb && bbg:
	case bb && da && isLegacyData(stem+".da"):
		problem(stem+".bb", "the flow graph, .bbg, is missing: compile with -ftest-coverage")
	case da && isLegacyData(stem+".da"):
		problem(stem+".da", "no .bb and .bbg of that name beside it: compile with -ftest-coverage")
	}
}

// isLegacyData tells whether a file is what programs of those compilers write.
func isLegacyData(name string) bool {
	b, err := input.ReadFile(name, input.MostData)
	if err != nil || len(b) < 8 {
		return false
	}
	_, err = gcov.ReadLegacyCounts(b)
	return err == nil
}

// addLegacy adds the units of those compilers.
func (o *Objects) addLegacy(stems []string) {
	var same sameFiles
	for _, stem := range stems {
		if same.first(stem+".bbg") != stem+".bbg" {
			continue // found by a link; the data are beside it
		}
		u := gcov.Object{Notes: stem + gcov.LegacySuffix, Dir: source.Unrecorded(stem[:strings.LastIndexByte(stem, '/')])}
		if input.IsFile(stem + ".da") {
			u.Data = []string{stem + ".da"}
			o.Data++
		}
		o.Units = append(o.Units, u)
	}
}
