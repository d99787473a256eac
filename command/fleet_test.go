//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"footfall/fleet/store"
	"footfall/fleet/store/sqlite"
	"footfall/fleet/units"
	"footfall/output"
	"footfall/report"
)

// stored prints what a store has in a format of reports, for scripts:
//
//	stored DIR FORMAT [NAME=VALUE]
//
// It may be one that is served. NAME is a label.
func stored() {
	if err := printStored(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stored:", err)
		os.Exit(1)
	}
}

func printStored(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: stored DIR FORMAT [NAME=VALUE]")
	}
	ctx := context.Background()
	s, err := sqlite.Read(ctx, args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	q := &store.Query{Labels: make(map[string]string)}
	for _, arg := range args[2:] {
		name, value, _ := strings.Cut(arg, "=")
		q.Labels[name] = value
	}
	var sum units.Sum
	if err := s.Totals(ctx, q, true, sum.Add); err != nil {
		return err
	}
	set, _ := sum.Set()
	r := report.Report{
		Set: set, Shown: func(path string) string { return path }, ExceptionBranches: true, Time: time.Unix(0, 0),
		ReadSource: func(string) ([]byte, error) { return nil, os.ErrNotExist },
	}
	_, err = r.Write(output.Request{Format: args[1], File: "-"}, os.Stdout)
	return err
}

// served waits for the address that footfall serve says into a file, and prints it: served SAID.
func served() {
	var address *url.URL
	err := errors.New("usage: served SAID")
	if len(os.Args) == 2 {
		address, err = addressIn(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "served:", err)
		os.Exit(1)
	}
	fmt.Print(address)
}
