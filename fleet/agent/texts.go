//go:build linux

package agent

import (
	"slices"

	"footfall/fleet/store"
	"footfall/fleet/units"
	"footfall/input"
	"footfall/output"
	"footfall/process"
)

// This file is the text of sources, which is sent if --with-sources says so. A program of somebody else says which sources it has:
// root reads these with the rights of those whose processes run it. So it takes a process that runs.

// texts are those of a build.
type texts struct {
	*units.Texts
	owners  input.Owners
	pending bool // some were noted that have not been read
}

func newTexts(root string) *texts {
	t := new(texts)
	t.Texts = units.NewTexts(root, &t.owners)
	return t
}

func (t *texts) note(u *store.Unit) error {
	if t == nil {
		return nil
	}
	t.pending = true
	return t.Note(u)
}

func (t *texts) hashes() []store.Hash {
	if t == nil {
		return nil
	}
	return t.Hashes()
}

// readTexts reads the texts of what processes run that have not been read, and keeps them in the spool; more tells that there are
// some.
func (a *agent) readTexts(p *program, pids ...int) (more bool, err error) {
	t := p.texts
	if t == nil || !t.pending {
		return false, nil
	}
	var systems []string
	for _, pid := range pids {
		if root, ok := t.admit(pid); ok && !slices.Contains(systems, root) {
			systems = append(systems, root)
		}
	}
	if len(systems) == 0 {
		return false, nil // they have ended: others may come
	}
	if !slices.Contains(systems, "") {
		systems = append(systems, "")
	}
	t.pending = false
	before := len(t.Hashes())
	lacked, _ := t.Left()
	err = t.Read(systems, a.spool.keepUnit)
	if lacking, why := t.Left(); lacking > lacked {
		a.o.Log.Warn("the text of some sources is not sent", "program", output.Printable(p.path), "sources", lacking, "first", output.Printable(why.Error()))
	}
	return len(t.Hashes()) > before, err
}

// admit has sources be read as the user of a process may, too, and tells where that has its files.
func (t *texts) admit(pid int) (root string, ok bool) {
	p, err := process.Open(pid)
	if err != nil {
		return "", false
	}
	defer p.Close()
	user, err := p.User()
	if err != nil {
		return "", false
	}
	t.owners.NoteProcess(pid, user)
	return p.Root(), true
}
