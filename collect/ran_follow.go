//go:build linux

package collect

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"footfall/output"
	"footfall/process"
)

// This file is what a Ran does with programs that a process and its children become by exec: each waits where its own
// code begins until it is watched.

// followEvery is how often it is looked for programs that wait.
const followEvery = 2 * time.Millisecond

// systemPrograms are where those of the system are, which are watched if an --include names them: shells, make.
var systemPrograms = []string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/libexec/"}

// OpenRanFollowing is for programs that follower follows, which is the caller's to close when this is
// closed. None of them need be watched.
func OpenRanFollowing(follower *process.Follower, o RanOptions) *Ran {
	r := newRan(o)
	r.follower = follower
	return r
}

// takeEvents watches the programs that have begun, and lets them run. ended tells that the process that was followed
// first has.
func (r *Ran) takeEvents() (ended bool) {
	for _, e := range r.follower.Events() {
		switch e.Kind {
		case process.Began:
			r.began(&e)
		case process.Ended:
			ended = ended || e.PID == r.follower.Main()
		}
	}
	return ended
}

func (r *Ran) began(e *process.FollowEvent) {
	if e.Unprivileged {
		r.say("%s is set-user-id, and runs without that, because it is followed and footfall does not run as root", output.Printable(e.Name))
	}
	if e.Process == nil {
		if !errors.Is(e.Err, process.ErrExited) {
			r.say("%s is not watched: %v", output.Printable(e.Name), e.Err)
		}
		return
	}
	watched, err := r.follows(e.Process)
	if err == nil && watched {
		err = r.arm(e.Process)
	}
	r.follower.Release(e.Process)
	if err != nil && !errors.Is(err, process.ErrExited) {
		r.say("%s is not watched: %v", output.Printable(e.Name), err)
	}
	if err != nil || !watched {
		_ = e.Process.Close()
	}
}

// follows tells whether a program that has begun is watched.
func (r *Ran) follows(p *process.Process) (bool, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return false, err
	}
	images := p.Images(maps)
	at := slices.IndexFunc(images, func(i *process.MappedFile) bool { return i.IsProgram() })
	if at < 0 {
		return false, fmt.Errorf("process %d: its program is not to be found", p.PID)
	}
	return r.options.Sources.Includes(images[at].Path) || !below(images[at].Path, systemPrograms), nil
}

// lookFollowing is Look for programs that are followed.
func (r *Ran) lookFollowing() (found []*RanFunction, next time.Duration, err error) {
	ended := r.takeEvents()
	if now := time.Now(); ended || now.After(r.due) {
		found, next, err = r.lookAtAll()
		r.due = now.Add(next)
	}
	if ended {
		return found, 0, process.ErrExited
	}
	if errors.Is(err, process.ErrExited) { // others may begin
		r.due, err = time.Now().Add(firstWait), nil
	}
	return found, followEvery, err
}
