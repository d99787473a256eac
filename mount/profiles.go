//go:build linux

package mount

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"footfall/collect"
	"footfall/collect/find"
	"footfall/live"
	"footfall/process"
)

// This file has source-based counters (Clang, Rust) and those of Go in the tree: each program and library has one raw
// profile, each program of Go its meta-data and counters, in the directory of the process, as it would write them now.

// A profiled is what has such counters.
type profiled struct {
	now  live.SourceProfile // as it was read last; its name is that of the first time
	zero []byte             // at the last reset; nil: there was none
}

// profiles reads them, if the source has any. Their error does not keep others from being read.
func profiles(of counted) ([]live.SourceProfile, error) {
	c, ok := of.(*live.CountedProcess)
	if !ok || !c.HasProfiles() {
		return nil, nil
	}
	list, err := c.Profiles()
	if errors.Is(err, live.ErrNoCounters) || errors.Is(err, process.ErrExited) || errors.Is(err, process.ErrReplaced) {
		err = nil // the snapshot tells
	}
	return list, err
}

// takeProfiles remembers what was read. Those of libraries that are closed stay.
func (p *target) takeProfiles(list []live.SourceProfile) {
	for _, now := range list {
		i := slices.IndexFunc(p.profiles, func(o *profiled) bool { return o.now.Key() == now.Key() })
		if i < 0 {
			of := &profiled{now: now}
			p.profiles = append(p.profiles, of)
			p.placeProfile(of)
			if c, ok := p.source.(*live.CountedProcess); ok && now.Meta != nil {
				p.places = c.Places()
			}
			continue
		}
		now.Name = p.profiles[i].now.Name // that of Go has the time
		p.profiles[i].now = now
	}
}

// placeProfile gives one its files.
func (p *target) placeProfile(of *profiled) {
	names := []string{of.now.Name}
	if of.now.Meta != nil {
		names = append(names, of.now.MetaName)
	}
	for i, name := range names {
		if leaf := p.root.at(components(name), p.m.nextIno); leaf != nil && leaf.isNew() {
			leaf.profile, leaf.meta = of, i > 0
		}
	}
	if program, is := strings.CutSuffix(of.now.Name, ".profraw"); is {
		p.link(program, 1, p.fsRoot+of.now.Image) // which has the mapping
	}
}

// bytes are what the program would write, without what was counted before the reset.
func (of *profiled) bytes() []byte {
	since := of.now
	if of.zero != nil {
		_ = since.Subtract(of.zero) // of another build is only what was rebuilt since: then all counts
	}
	return since.Bytes
}

// addProfiles adds the profiles of the process to what is collected. The process must be locked.
func (p *target) addProfiles(objects *find.Objects) {
	for _, of := range p.profiles {
		collect.AddProfile(objects, collect.ProfileReading{
			Title: p.name, Root: p.fsRoot, Profile: of.now, Since: of.zero, Places: p.places,
		})
	}
}

// resetProfiles has those of a file, or all, begin from zero.
func (p *target) resetProfiles(n *node) {
	for _, of := range p.profiles {
		if n == nil || n.profile == of {
			of.zero = of.now.Bytes
		}
	}
}

// content is what a file of counters holds. The process must be locked.
func (n *node) content() []byte {
	switch {
	case n.meta:
		return n.profile.now.Meta
	case n.profile != nil:
		return n.profile.bytes()
	}
	return n.counts().Encode()
}

// noticeProfiles tells which of the counters cannot be used.
func (p *target) noticeProfiles(err error) {
	if err != nil {
		p.m.notice(fmt.Sprintf("%s: %v", p.name, err))
	}
}
