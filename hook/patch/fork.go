//go:build linux

package patch

import (
	"fmt"

	"footfall/process"
)

// A child made by fork has the jumps of its parent, and records nothing. It has
// the same islands, too: mappings of the same files in memory, by which it is
// found, whoever its parent is by now.

// fileOf tells the file of a mapping from any other.
func fileOf(m *process.Mapping) string { return fmt.Sprintf("%s %d", m.Device, m.Inode) }

// noteIslands remembers the files of the islands.
func (s *Session) noteIslands() error {
	maps, _, err := s.p.Maps()
	if err != nil {
		return err
	}
	s.files = make(map[string]bool)
	for _, b := range s.islands {
		if m := maps.At(b.addr + infoAt); m != nil {
			s.files[fileOf(m)] = true
		}
	}
	return nil
}

// restoreChildren restores the children, and theirs, and returns how many
// processes that were. Those that it has no permission for stay as they are.
func (s *Session) restoreChildren() (total int) {
	for round := 0; round < 10 && len(s.files) > 0; round++ {
		pids, err := process.List()
		if err != nil {
			return total
		}
		n := 0
		for _, pid := range pids {
			if pid != s.p.PID && !process.SharesMemory(s.p.LivingThread(), pid) && s.restoreChild(pid) {
				n++
			}
		}
		if n == 0 {
			break // else they may have made more meanwhile
		}
		total += n
	}
	s.files = nil
	return total
}

func (s *Session) restoreChild(pid int) bool {
	p, err := process.Open(pid)
	if err != nil {
		return false
	}
	defer p.Close()
	if !s.isChild(p) {
		return false
	}
	release, err := p.Claim()
	if err != nil {
		return false
	}
	defer release()
	islands, err := findIslands(p)
	if err != nil || refuseSecond(p, islands) != nil {
		return false
	}
	n, err := repair(p, islands)
	return err == nil && n > 0
}

func (s *Session) isChild(p *process.Process) bool {
	maps, _, err := p.Maps()
	if err != nil {
		return false
	}
	for i := range maps {
		if maps[i].Path == "/memfd:"+codeName && s.files[fileOf(&maps[i])] {
			return true
		}
	}
	return false
}
