package tool

import (
	"footfall/formats/llvm"
	"footfall/input"
)

// pages is show -format=html: pages of footfall's report, of the files that llvm-cov would show.
func (s *viewing) pages() error {
	wanted := make(map[string]bool)
	for _, name := range s.files() {
		wanted[name] = true
	}
	sum := llvm.NewSum()
	if _, err := sum.Add(s.profiled); err != nil {
		return s.failed(s.profile, err)
	}
	images := make([]llvm.Image, len(s.binaries))
	for i, b := range s.binaries {
		images[i].Binary = b
	}
	set, _ := llvm.Collect(images, llvm.CollectOptions{
		Source: func(_, name string) (string, bool) { return name, wanted[name] },
		Shared: []llvm.Shared{{Sum: sum}},
	})
	p := Pages{Set: set, Dir: s.dir, Title: s.title, Source: s.readSource}
	if info, err := input.Stat(s.profile); err == nil && s.createdTime {
		p.Time = info.ModTime()
	}
	return s.Pages(p)
}
