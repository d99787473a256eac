package coverage

import "slices"

// OnlyRan returns a set of what ran: files of which a line ran, with these lines and the
// functions that they are in. What is left of it says nothing of what did not run, so
// nothing is to be concluded from its totals.
func (s *Set) OnlyRan() *Set {
	out := new(Set)
	for _, f := range s.All() {
		if ran := f.onlyRan(); len(ran.Lines) > 0 {
			out.files = append(out.files, out.store(ran))
		}
		if out.lines > mostUnpacked {
			out.shrink()
		}
	}
	return out
}

func (f *File) onlyRan() *File {
	ran := &File{Name: f.Name, Tests: f.Tests}
	for i := range f.Lines {
		if f.Lines[i].Count > 0 {
			ran.Lines = append(ran.Lines, f.Lines[i])
		}
	}
	for _, fn := range f.Functions {
		// A function that was entered before counting began runs without a call.
		i, _ := slices.BinarySearchFunc(ran.Lines, fn.StartLine, func(l Line, n int32) int { return int(l.Number - n) })
		if fn.Count > 0 || i < len(ran.Lines) && ran.Lines[i].Number <= fn.EndLine {
			ran.Functions = append(ran.Functions, fn)
		}
	}
	return ran
}
