//go:build linux

package patch

import (
	"footfall/binary"
	"footfall/process/target"
	"footfall/trace"
)

// An EntrySite is the entry of a function in a running process, as a session changes it.
type EntrySite struct {
	target.Entry
	Root bool // with Filter.Roots: recording begins here
	// Arguments are those that are recorded with each call.
	Arguments []trace.Capture

	mode  trace.Mode // of its stub
	way   exitWay
	exits []binary.Exit // if they are sites
	room  int           // whole instructions of at least native.jumpSize bytes
	// window is what is moved; nil: there is room.
	window *binary.EntryWindow
	old    [8]byte
	code   span // of a [Ran]: what runs if the site does
	block  bool // of a Ran: it is that of a block, which need not begin a function
	number int  // of a Ran
}

// Sites lists the sites of an image, and how many entries of its lists cannot
// be used. Programs for another CPU, which an emulator has in its memory, have none.
func Sites(i *target.Image) ([]*EntrySite, int, error) {
	if i.File.Machine != native.machine {
		return nil, 0, nil
	}
	entries, unusable, err := i.Sites()
	return sitesOf(entries), unusable, err
}

// Functions lists the functions of an image as sites, whether they have room or not.
func Functions(i *target.Image) []*EntrySite { return sitesOf(i.Functions()) }

func sitesOf(entries []*target.Entry) []*EntrySite {
	sites := make([]*EntrySite, len(entries))
	for n, e := range entries {
		sites[n] = &EntrySite{Entry: *e}
	}
	return sites
}
