package record

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"footfall/output"
	"footfall/proc"
)

// listTarget is --list.
func (o *Options) listTarget(target string, only []string) error {
	ways, err := parseWays(o.Ways)
	if err != nil {
		return output.UsageError(err)
	}
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	return o.printSites(p, ways, only)
}

// printSites lists the functions that can be traced, of those that fit only some patterns besides.
func (o *Options) printSites(p *proc.Process, ways ways, only []string) error {
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
	printFunctions(o.Stdout, p, slices.Concat(c.sites, c.probes))
	return nil
}

func printFunctions(w io.Writer, p *proc.Process, list []Function) {
	fmt.Fprintf(w, "%-14s %4s %7s  %-40s %s\n", "ADDRESS", "ROOM", "SIZE", "FUNCTION", "SOURCE")
	for _, s := range list {
		file, line := s.Source(p)
		source := filepath.Base(s.Image.Path)
		if file != "" {
			source = fmt.Sprintf("%s:%d", file, line)
		}
		fmt.Fprintf(w, "%-14x %4d %7d  %-40s %s\n", s.Addr, s.Site.Size, s.Function.Size, output.Printable(s.Name()), output.Printable(source))
	}
}
