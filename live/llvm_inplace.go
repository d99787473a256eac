//go:build linux

package live

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"footfall/formats/llvm"
	"footfall/input"
)

// This file writes source-based counters where the program itself would: into the file of LLVM_PROFILE_FILE or that the
// compiler was told (-fprofile-instr-generate=FILE), those of Go into the directory of GOCOVERDIR. A raw profile is put
// behind those that are in the file, as the program does, or with %m in its name added to the one that is there.

// WriteProfilesInPlace adds profiles to the files that the program would write when it ends (and still will), with the
// rights of its user. It returns the number of files. The error tells of those that could not be written.
func (p *CountedProcess) WriteProfilesInPlace(list []SourceProfile) (n int, err error) {
	place, err := p.startPlacer()
	if err != nil {
		return 0, err
	}
	_, place.named = p.ancestors()
	user, err := p.proc.User()
	if err != nil {
		return 0, err
	}
	root, err := input.OpenRoot(place.root)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	var problems []error
	err = user.Do(func() error {
		for i := range list {
			written, err := list[i].writeInPlace(root, place)
			if n += written; err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", list[i].Image, err))
			}
		}
		return nil
	})
	return n, errors.Join(append(problems, err)...)
}

func (p *SourceProfile) writeInPlace(root *input.Root, place *placer) (n int, err error) {
	below := func(name string) string {
		if !path.IsAbs(name) {
			name = filepath.Join(place.dir, name)
		} else if place.root != "" {
			name = filepath.Join(place.root, name)
		}
		return strings.TrimPrefix(filepath.Clean(name), place.root)
	}
	if p.Meta != nil {
		dir := place.env["GOCOVERDIR"]
		if dir == "" {
			return 0, errors.New("GOCOVERDIR is not set in its environment, so it would write nothing: --dump=DIR does")
		}
		for name, b := range map[string][]byte{p.MetaName: p.Meta, p.Name: p.Bytes} {
			if err := replaceData(root, below(path.Join(dir, name)), b); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	name, merges, err := p.own.fileName(place)
	if err != nil {
		return 0, err
	}
	if merges {
		err = p.mergeInto(root, below(name))
	} else {
		err = appendTo(root, below(name), p.Bytes)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return 1, nil
}

// An ownFile is what decides where a program writes its profile.
type ownFile struct {
	known     bool   // that the compiler was told no other name than pattern
	pattern   string // that it was told, "": none
	signature uint64 // that stands for %m
	ids       []byte
}

// fileName returns the name of the file, and whether it is to be merged into. It is an error, beside both, if the counters are
// in it all the time. In names are
//
//	%p process, before it was forked  %h host  %t $TMPDIR  %m signature of the image, _0  %Nm the same with _ and the process modulo N
//	%c counters are in the file all the time  %b build ID
func (o *ownFile) fileName(place *placer) (name string, merges bool, err error) {
	pattern := place.env["LLVM_PROFILE_FILE"]
	switch {
	case pattern != "":
	case !o.known:
		return "", false, errors.New("it is stripped, and LLVM_PROFILE_FILE is not set in its environment: where it would write is not known; --dump=DIR writes")
	case o.pattern != "":
		pattern = o.pattern
	default:
		pattern = "default.profraw"
	}
	var b strings.Builder
	continuous := error(nil)
	for rest := pattern; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			break
		}
		digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
		if after = after[len(digits):]; after == "" {
			break
		}
		switch c := after[0]; {
		case c == 'p':
			b.WriteString(strconv.Itoa(cmp.Or(place.named, place.pid)))
		case c == 'h':
			host, _ := os.Hostname()
			b.WriteString(host)
		case c == 't':
			b.WriteString(place.env["TMPDIR"])
		case c == 'b':
			fmt.Fprintf(&b, "%x", o.ids)
		case c == 'c':
			continuous = errors.New("its counters are in its file all the time (%c)")
		case c == 'm':
			merges = true
			pool, _ := strconv.Atoi(digits)
			fmt.Fprintf(&b, "%d_%d", o.signature, place.pid%max(pool, 1))
		default:
			return "", false, fmt.Errorf("its LLVM_PROFILE_FILE has %%%c, which is not known", c)
		}
		rest = after[1:]
	}
	return b.String(), merges, continuous
}

// signatureOf is what a program calls the file of one of its images by: as cheap as a sum can be, see
// lprofGetLoadModuleSignature in compiler-rt.
func (p *llvmSections) signatureOf(first []byte) uint64 {
	counters := p.counters.size
	if p.raw&llvm.FlagSingleBytes == 0 {
		counters /= 8
	}
	records := p.data.size / uint64(p.raw.Record(p.pointer).Size)
	sum := p.names.size<<40 + counters<<30 + records<<20 + p.nodes<<10 + uint64(p.raw) + rawMagic(p.pointer)
	if len(first) >= 8 {
		sum += p.order.Uint64(first)
	}
	return sum
}

// appendTo puts a profile behind those that are in a file.
func appendTo(root *input.Root, name string, b []byte) error {
	f, err := openLocked(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.WriteAt(b, end)
	}
	return err
}

// mergeInto adds a profile to the one of the same build that is in a file, or writes it there.
func (p *SourceProfile) mergeInto(root *input.Root, name string) error {
	return changeData(root, name, func(old []byte) ([]byte, error) {
		if len(old) == 0 {
			return p.Bytes, nil
		}
		return p.sum(old)
	})
}

// sum adds up two profiles of an image.
func (p *SourceProfile) sum(old []byte) ([]byte, error) {
	before, err := p.countedIn(old)
	if err != nil {
		return nil, errors.New("nothing is added to what is no profile of this build")
	}
	if names := p.parts.rest + (p.parts.namesSize+7)&^7; len(old) != names || len(p.Bytes) != names {
		return nil, errors.New("values that were counted (-fprofile-generate) are not added: --dump=DIR writes them")
	}
	all := p.counted()
	p.parts.combine(all, before, plusCount, plusSet)
	return p.with(all).Bytes, nil
}

// replaceData writes a file of Go, of which no other has the name.
func replaceData(root *input.Root, name string, b []byte) error {
	f, err := root.OpenFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
