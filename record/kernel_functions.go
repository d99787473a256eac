//go:build linux

package record

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"footfall/hook/ftrace"
	"footfall/output"
)

// kernelGlobs makes globs of the kernel of patterns: of /EXPRESSION/ the names
// that fit.
func kernelGlobs(patterns []string) ([]string, error) {
	var globs []string
	for _, p := range patterns {
		if len(p) < 3 || p[0] != '/' || p[len(p)-1] != '/' {
			if p == "" || strings.ContainsAny(p, " \n") {
				return nil, output.UsageError(fmt.Errorf("pattern %q names no function", p))
			}
			globs = append(globs, p)
			continue
		}
		names, err := kernelFunctions([]string{p})
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("kernel: no function that can be traced fits %s; --list kernel lists them", p)
		}
		for _, name := range names {
			name, _, _ = strings.Cut(name, " ")
			globs = append(globs, name)
		}
	}
	return globs, nil
}

// kernelFunctions lists functions of the kernel that can be traced and fit one
// of the patterns, or all.
func kernelFunctions(patterns []string) ([]string, error) {
	var fit []*regexp.Regexp
	for _, p := range patterns {
		module := ""
		if i := strings.Index(p, ":"); i > 0 && p[0] != '/' {
			module, p = p[:i], p[i+1:]
		}
		text := `^` + globText(p) + `( \[.*\])?$`
		if module != "" {
			text = `^` + globText(p) + ` \[` + globText(module) + `\]$`
		}
		if len(p) > 2 && p[0] == '/' && p[len(p)-1] == '/' {
			text = p[1 : len(p)-1]
		}
		e, err := regexp.Compile(text)
		if err != nil {
			return nil, output.UsageError(fmt.Errorf("pattern %q: %w", p, err))
		}
		fit = append(fit, e)
	}
	all, err := ftrace.List()
	if err != nil || len(fit) == 0 {
		return all, err
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return !slices.ContainsFunc(fit, func(e *regexp.Regexp) bool { return e.MatchString(name) })
	}), nil
}

// globText makes a regular expression of a glob.
func globText(glob string) string {
	return strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(glob))
}

// kernel is footfall trace of the kernel.
func (o *Options) kernel(patterns []string) error {
	switch {
	case o.Repair:
		return repairKernel(o.Stderr)
	case o.List:
		return o.listKernel(o.Stdout, patterns)
	}
	return o.traceKernel()
}

// listKernel is --list kernel.
func (o *Options) listKernel(w io.Writer, patterns []string) error {
	names, err := kernelFunctions(append(slices.Clone(o.Functions), patterns...))
	if err != nil {
		return err
	}
	slices.Sort(names)
	_, err = fmt.Fprintln(w, strings.Join(names, "\n"))
	return err
}

// repairKernel is --repair kernel.
func repairKernel(stderr io.Writer) error {
	n, err := ftrace.Repair()
	if err == nil {
		fmt.Fprintf(stderr, "footfall: kernel: %s restored\n", output.Count(n, "setting or instance", "settings and instances"))
	}
	return err
}

// kernelOptions makes those of a session.
func (o *Options) kernelOptions() (f ftrace.Options, err error) {
	switch {
	case o.Sample != "":
		return f, output.UsageError(errors.New("the kernel's tracers know no --sample"))
	case o.Count && len(o.Threads) > 0:
		return f, output.UsageError(errors.New("the kernel's tracers count the calls of all threads: --count and --thread do not go together"))
	case len(o.Args) > 0:
		return f, output.UsageError(errors.New("the kernel's tracers know no --args"))
	case len(o.Ways) > 0:
		return f, output.UsageError(errors.New("the kernel's functions are traced by the kernel's tracers alone: --way is for those of programs"))
	case o.FollowExec:
		return f, output.UsageError(errors.New("--follow-exec is for programs; the kernel's functions are traced for all of them"))
	case len(o.Functions) == 0 && len(o.GraphFrom) == 0:
		return f, output.UsageError(errors.New("say which functions of the kernel: -f GLOB, or --graph-from FUNCTION; -f '*' is all of them, many millions of calls a second"))
	case o.Buffer < 1 || o.Buffer > 1024:
		return f, output.UsageError(fmt.Errorf("--buffer %d: it must be from 1 to 1024", o.Buffer))
	}
	f = ftrace.Options{Depth: o.Depth, MinDuration: o.MinDuration, BufferSize: o.Buffer << 20, Newest: o.Newest}
	f.Exits = o.Exits || o.Depth > 0 || o.MinDuration > 0 || len(o.GraphFrom) > 0
	var errs [3]error
	f.Functions, errs[0] = kernelGlobs(o.Functions)
	f.Notrace, errs[1] = kernelGlobs(o.Notrace)
	f.From, errs[2] = kernelGlobs(o.GraphFrom)
	return f, errors.Join(errs[:]...)
}
