//go:build linux

package collect

import (
	"errors"
	"fmt"
	"slices"

	"footfall/hook/patch"
	"footfall/process"
	"footfall/process/target"
)

// A RanOffer is what a [Ran] can tell of a process.
type RanOffer struct {
	// Functions and Lines say where they come from, as the debug file; "" if they are not known.
	Functions, Lines string
	// Why is why it can tell nothing; nil if it can.
	Why error
}

// OfferOf looks what a Ran can tell of a process, which may be fewer functions than there are.
func OfferOf(pid int) (o RanOffer) {
	p, err := process.Open(pid)
	if err != nil {
		return RanOffer{Why: err}
	}
	defer p.Close()
	images, err := target.Images(p)
	for _, i := range images {
		defer i.Close()
	}
	at := slices.IndexFunc(images, (*target.Image).IsProgram)
	if at < 0 {
		return RanOffer{Why: errors.Join(err, fmt.Errorf("process %d: its program cannot be read", pid))}
	}
	i := images[at]
	if o.Why = patch.CheckRan(p, i); o.Why != nil {
		return o
	}
	if o.Functions, o.Lines = i.NamedBy(), i.LinesBy(); o.Functions == "" || o.Functions == "dynamic symbols" {
		if i.File.Has(".eh_frame") { // has those without a name
			o.Functions = ".eh_frame"
		} else if o.Functions == "" {
			o.Why = fmt.Errorf("process %d: it has neither symbols nor .eh_frame", pid)
		}
	}
	return o
}
