package profile

import (
	"encoding/json"
	"io"

	pprof "github.com/google/pprof/profile"
)

// printSpeedscope writes the format of speedscope.app: a "sampled" profile for
// each thread, over one table of functions.
func printSpeedscope(w io.Writer, r *View) error {
	stacks, err := r.stacks()
	if err != nil {
		return err
	}
	type frame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int64  `json:"line,omitempty"`
	}
	type sampled struct {
		Type       string  `json:"type"`
		Name       string  `json:"name"`
		Unit       string  `json:"unit"`
		StartValue int64   `json:"startValue"`
		EndValue   int64   `json:"endValue"`
		Samples    [][]int `json:"samples"`
		Weights    []int64 `json:"weights"`
	}
	frames := []frame{}
	numbers := make(map[*pprof.Function]int)
	profiles := []*sampled{}
	threads := make(map[string]*sampled)
	for _, s := range stacks {
		p := threads[s.thread]
		if p == nil {
			p = &sampled{Type: "sampled", Name: s.thread, Unit: "nanoseconds"}
			if r.Profile.counts() {
				p.Unit = "none"
			}
			if s.thread == "" {
				p.Name = r.Title
			}
			threads[s.thread] = p
			profiles = append(profiles, p)
		}
		var chain []int
		for _, f := range s.functions {
			n, ok := numbers[f]
			if !ok {
				n = len(frames)
				numbers[f] = n
				frames = append(frames, frame{f.Name, f.Filename, f.StartLine})
			}
			chain = append(chain, n)
		}
		p.Samples = append(p.Samples, chain)
		p.Weights = append(p.Weights, s.cpu)
		p.EndValue += s.cpu
	}
	return json.NewEncoder(w).Encode(map[string]any{
		"$schema":  "https://www.speedscope.app/file-format-schema.json",
		"exporter": "footfall",
		"name":     r.Title,
		"shared":   map[string]any{"frames": frames},
		"profiles": profiles,
	})
}
