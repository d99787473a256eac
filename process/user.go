//go:build linux

package process

import "footfall/input"

// User returns the process's user, with the rights that count for files.
func (p *Process) User() (input.User, error) {
	b, err := p.read("status")
	if err != nil {
		return input.User{}, err
	}
	return input.OfStatus(b)
}
