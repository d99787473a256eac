package units

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"footfall/fleet/store"
	"footfall/input"
	"footfall/report/source"
)

// This file is the text of sources, for who has said that it may leave the machine.

// Limits of texts, in bytes: of one, and of all that go with a build.
const (
	MostText  = 1 << 20
	MostTexts = 64 << 20
)

// OfText returns the unit of the text of a source, by the name by which other units tell of it. It is of the kind [store.Text], has no
// counters, and its program is the version, 1 byte, and then the text as it is.
func OfText(name string, text []byte) (store.Unit, error) {
	u := store.Unit{Kind: store.Text, Name: name, Program: append([]byte{version}, text...)}
	_, err := TextOf(&u)
	return u, err
}

// TextOf returns the text of a unit of the kind [store.Text], which stays where it is.
func TextOf(u *store.Unit) ([]byte, error) {
	if len(u.Program) > 1+MostText {
		return nil, tooLarge(int64(len(u.Program)) - 1)
	}
	c := cursorOf(u.Program)
	switch {
	case c.err != nil:
		return nil, c.err
	case u.Counters != 0:
		return nil, fmt.Errorf("%d counters, where a text has none", u.Counters)
	case u.Name == "":
		return nil, errors.New("the text has no name")
	case bytes.IndexByte(u.Program[c.at:], 0) >= 0:
		return nil, errors.New("it has NUL characters, as no text has")
	}
	return u.Program[c.at:], nil
}

func tooLarge(size int64) error {
	return fmt.Errorf("%d bytes, where at most %d of a text are kept", size, MostText)
}

// Sources calls use with the name of each source that a unit tells of, with some of them again.
func Sources(u *store.Unit, use func(name string)) error {
	switch u.Kind {
	case Notes:
		names, _, err := readNotes(u.Program)
		for _, n := range names {
			use(n.shown)
		}
		return err
	case Mapping:
		o, err := mappedOf(u)
		if err == nil {
			o.binary.Files(use)
		}
		return err
	case GoPackage:
		o, err := goPackageOf(u)
		for i := 0; err == nil && i < len(o.sources); i++ {
			use(o.sources[i].shown)
		}
		return err
	}
	use(u.Name)
	return nil
}

// Texts are the texts of the sources that the units of a build tell of: of those below a directory, since a name may be of
// whatever file its author likes.
type Texts struct {
	root   string // absolute
	owners *input.Owners
	read   map[string]bool // sources, by name: whether they have been read
	hashes []store.Hash
	size   int64
	left   int   // sources that are not sent
	why    error // of the first of them
}

// NewTexts returns those of sources whose names are seen from a directory, read as those users may read them who say which there are.
func NewTexts(root string, owners *input.Owners) *Texts {
	return &Texts{root: root, owners: owners, read: make(map[string]bool)}
}

// Note adds the sources that a unit tells of.
func (t *Texts) Note(u *store.Unit) error {
	return Sources(u, func(name string) {
		if filepath.IsLocal(name) && !t.read[name] { // others are not below the root
			t.read[name] = false
		}
	})
}

// Read calls use with the unit of the text of each source that was noted since the last call. It is looked for below the root in
// each of several file systems, "" for ours.
func (t *Texts) Read(systems []string, use func(store.Hash, store.Unit) error) error {
	for _, name := range slices.Sorted(maps.Keys(t.read)) {
		if t.read[name] {
			continue
		}
		t.read[name] = true
		u, err := t.unit(systems, name)
		if err != nil {
			if t.left++; t.why == nil {
				t.why = fmt.Errorf("%s: %w", name, source.WithoutPath(err))
			}
			continue
		}
		hash := u.Hash()
		t.hashes = append(t.hashes, hash)
		t.size += int64(len(u.Program))
		if err := use(hash, u); err != nil {
			return err
		}
	}
	return nil
}

// Hashes are those of all that were read.
func (t *Texts) Hashes() []store.Hash { return t.hashes }

// Left is how many sources were not read, and why the first of them was not.
func (t *Texts) Left() (n int, why error) { return t.left, t.why }

func (t *Texts) unit(systems []string, name string) (u store.Unit, err error) {
	var text []byte
	first := error(nil)
	for _, system := range systems {
		if text, err = t.text(system, filepath.Join(t.root, name)); err == nil {
			break
		}
		if first == nil || errors.Is(first, os.ErrNotExist) {
			first = err
		}
	}
	switch {
	case err != nil:
		return u, first
	case t.size+int64(len(text)) > MostTexts:
		return u, fmt.Errorf("all of a build have more than %d bytes", MostTexts)
	}
	return OfText(name, text)
}

// text reads a file of a file system. In ours links do not lead out of the root; in that of a process they do not lead out of it.
func (t *Texts) text(system, path string) ([]byte, error) {
	if system != "" {
		path = filepath.Join(system, path)
	} else {
		root, err := filepath.EvalSymlinks(t.root)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			return nil, err
		}
		if _, inside := source.Below(path, root); !inside {
			return nil, fmt.Errorf("it is a link that leads out of %s", t.root)
		}
	}
	info, err := input.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > MostText {
		return nil, tooLarge(info.Size())
	}
	text, _, err := t.owners.ReadSource(path)
	return text, err
}
