//go:build linux

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"footfall/live"
	"footfall/output"
	"footfall/process"
)

// A listed is a row of --list.
type listed struct {
	pid, name string
	live.Inventory
}

// listLive lists the processes that have counters.
func listLive(stdout, stderr io.Writer, verbose bool) error {
	pids, err := process.List()
	if err != nil {
		return err
	}
	var rows []listed
	var denied []error
	for _, pid := range pids {
		name, inventory, err := live.InventoryPatiently(pid)
		var stuck *live.StuckError
		switch {
		case errors.As(err, &stuck):
			fmt.Fprintf(stderr, "footfall: %s\n", output.Printable(stuck.Error()))
		case errors.Is(err, fs.ErrPermission):
			denied = append(denied, err)
		case err == nil:
			rows = append(rows, listed{strconv.Itoa(pid), name, inventory})
		}
	}
	if k, err := live.OpenKernel(""); err == nil {
		units, _ := k.Snapshot()
		rows = append(rows, listed{"-", "kernel", live.InventoryOf(units)})
	}
	rows = slices.DeleteFunc(rows, func(r listed) bool { return r.Objects == 0 })
	if err := printList(stdout, rows); err != nil {
		return err
	}
	if len(rows) == 0 {
		fmt.Fprintf(stderr, "footfall: none of %d processes has counters: build with --coverage\n", len(pids)-len(denied))
	}
	if n := len(denied); n > 0 {
		fmt.Fprintf(stderr, "footfall: %d of %d processes could not be read, the first: %v\n", n, len(pids), denied[0])
		for i := 1; verbose && i < n; i++ {
			fmt.Fprintf(stderr, "footfall: %v\n", denied[i])
		}
	}
	return nil
}

func printList(w io.Writer, rows []listed) error {
	if len(rows) == 0 {
		return nil
	}
	pid, compiler := len("PID"), len("COMPILER")
	for _, r := range rows {
		pid = max(pid, len(r.pid))
		compiler = max(compiler, len(strings.Join(r.Compilers, ", ")))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%*s  %7s  %9s  %-*s  %s\n", pid, "PID", "OBJECTS", "COUNTERS", compiler, "COMPILER", "NAME")
	for _, r := range rows {
		fmt.Fprintf(&b, "%*s  %7d  %9s  %-*s  %s\n", pid, r.pid, r.Objects, size(r.Bytes), compiler, strings.Join(r.Compilers, ", "), output.Printable(r.name))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// size is a number of bytes, for people.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
