//go:build linux

package record

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"footfall/output"
	"footfall/process"
	"footfall/process/target"
)

// listTarget is --list, of a process or, with a / in its name, a file.
func (o *Options) listTarget(name string, only []string) error {
	ways, err := parseWays(o.Ways)
	if err != nil {
		return output.UsageError(err)
	}
	if strings.Contains(name, "/") {
		return o.listFile(name, ways, only)
	}
	p, err := openTarget(name)
	if err != nil {
		return err
	}
	defer p.Close()
	return o.printSites(p, ways, only)
}

// listFile lists the functions of a program or library that need not run.
func (o *Options) listFile(name string, ways ways, only []string) error {
	s, err := o.selection(only...)
	if err != nil {
		return err
	}
	image, err := target.OpenFile(name)
	if err != nil {
		return err
	}
	defer image.Close()
	t := &program{images: target.ModulesOf(image), ways: ways, stderr: o.Stderr}
	t.aim(s)
	c, err := t.choose(t.images.All())
	switch {
	case err != nil:
		return err
	case c.size() == 0 && len(image.Functions()) == 0:
		return fmt.Errorf("%s: %w", name, errNoSymbols)
	case c.size() == 0:
		return fmt.Errorf("%s: no function that can be traced fits (one that was inlined everywhere is none)", name)
	}
	printFunctions(o.Stdout, slices.Concat(c.sites, c.probes))
	return nil
}

// printSites lists the functions that can be traced, of those that fit only some patterns besides.
func (o *Options) printSites(p *process.Process, ways ways, only []string) error {
	s, err := o.selection(only...)
	if err != nil {
		return err
	}
	t := newProgram(p, s, ways, nil, o.Stderr)
	defer t.images.Close()
	c, none := t.find(awaitNothing)
	if without := (*noSites)(nil); none != nil && !errors.As(none, &without) {
		return none
	}
	if c.size() == 0 {
		return t.joined(none, t.whyNoProbes(false))
	}
	printFunctions(o.Stdout, slices.Concat(c.sites, c.probes))
	return nil
}

func printFunctions(w io.Writer, list []TracedFunction) {
	fmt.Fprintf(w, "%-14s %4s %7s  %-40s %s\n", "ADDRESS", "ROOM", "SIZE", "FUNCTION", "SOURCE")
	for _, s := range list {
		file, line := s.Source()
		source := filepath.Base(s.Image.Path)
		if file != "" {
			source = fmt.Sprintf("%s:%d", file, line)
		}
		room := fmt.Sprint(s.EntrySite.Size)
		if s.Moves() {
			room = Moved.String()
		}
		fmt.Fprintf(w, "%-14x %4s %7d  %-40s %s\n", s.Addr, room, s.Function.Size, output.Printable(s.Name()), output.Printable(source))
	}
}
