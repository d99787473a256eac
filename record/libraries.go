//go:build linux

package record

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"footfall/output"
	"footfall/process/target"
)

// libraries is what is known of those that a program loads while it is recorded.
type libraries struct {
	said map[string]bool // paths of those that were said to be loaded
	next time.Time       // when they are looked for again
	// gone is called when images have been unloaded, before others can be in their place; nil: nobody
	// wants to know.
	gone func([]*target.Image)
}

// noticed tells whether a thread waits until look has been called.
func (t *program) noticed() bool {
	if t.sites == nil {
		return false
	}
	_, waits := t.sites.session.Noticed()
	return waits
}

// look looks for libraries that have been loaded or unloaded: only now and then, and when a
// thread waits for that.
func (t *program) look() error {
	begin := time.Now()
	notice, waits := uint32(0), false
	if t.sites != nil {
		notice, waits = t.sites.session.Noticed()
	}
	if !waits && begin.Before(t.next) {
		return nil
	}
	// A large memory map must not keep the process from changing it.
	defer func() { t.next = time.Now().Add(max(50*time.Millisecond, 20*time.Since(begin))) }()
	fresh := t.lookForImages()
	err := t.forbidden(fresh)
	if len(fresh) > 0 && err == nil {
		t.addImages(fresh)
	}
	if t.sites != nil {
		t.sites.session.Answer(notice)
	}
	return err
}

// lookForImages returns images that have come, and says which have gone.
func (t *program) lookForImages() []*target.Image {
	var before []*target.Image
	if t.gone != nil {
		before = t.images.Present()
	}
	if t.sites != nil {
		for _, image := range t.sites.session.Gone() {
			t.images.Forget(image)
		}
	}
	fresh, changed, _ := t.images.Look() // some files are not programs
	if changed && t.gone != nil {
		after := t.images.Present()
		t.gone(slices.DeleteFunc(before, func(i *target.Image) bool { return slices.Contains(after, i) }))
	}
	return fresh
}

// forbidden tells that exits of functions must not be watched any more, since exceptions of
// images that were loaded could not pass them. Functions with room go on being recorded.
func (t *program) forbidden(fresh []*target.Image) error {
	if t.probes == nil || t.probes.stopped {
		return nil
	}
	err := t.probes.forbidExits(fresh)
	if err == nil || t.sites == nil {
		return err
	}
	fmt.Fprintf(t.stderr, "footfall: %s not traced any more: %v\n", output.Count(t.probes.On(), "function without room for a jump is", "functions without room for a jump are"), err)
	return t.probes.Stop()
}

// addImages records functions of images that have come, and says so.
func (t *program) addImages(fresh []*target.Image) {
	c, err := t.choose(fresh)
	if err == nil && c.size() == 0 {
		t.sayRoomless(fresh)
	}
	from := c.images()
	if len(from) == 0 {
		from = fresh
	}
	if t.paused {
		c.sites, c.probes = nil, nil
	}
	names := imageNames(from)
	n, failed := t.addProbes(c.probes)
	if failed != nil { // also if the process has ended by now
		fmt.Fprintf(t.stderr, "footfall: the functions of %s, loaded meanwhile, are not traced: %v\n", names, failed)
	}
	if t.sites != nil && err == nil {
		more := 0
		more, err = t.sites.addWith(c.sites, t.noCFI(fresh))
		n += more
	}
	if err != nil && t.p.Check() == nil {
		fmt.Fprintf(t.stderr, "footfall: the functions of %s, loaded meanwhile, are not traced: %v\n", names, err)
	}
	if n > 0 && !t.told(from) {
		fmt.Fprintf(t.stderr, "footfall: %s loaded: tracing %s\n", names, output.Count(n, "more function", "more functions"))
	}
}

// imageNames are the names of files, for a message.
func imageNames(images []*target.Image) string {
	var names []string
	for _, i := range images {
		names = append(names, filepath.Base(i.Path))
	}
	return strings.Join(names, ", ")
}

// told tells whether all of the images have been said to be loaded before, and notes
// that they have.
func (t *program) told(images []*target.Image) bool {
	all := true
	for _, i := range images {
		all = all && t.said[i.Path]
		t.said[i.Path] = true
	}
	return all
}

// sayRoomless says which images were awaited for nothing.
func (t *program) sayRoomless(images []*target.Image) {
	for _, i := range images {
		if slices.ContainsFunc(t.selection.take, func(p target.Pattern) bool { return p.NamesLibrary() != "" && p.In(i.Path) }) && !t.told([]*target.Image{i}) {
			fmt.Fprintf(t.stderr, "footfall: %s loaded: it has no function that fits\n", filepath.Base(i.Path))
		}
	}
}
