package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"footfall/collect"
	"footfall/output"
	"footfall/report"
	"footfall/report/exclude"
	"footfall/report/source"
)

// This file is footfall merge where it is not gcov-tool's: of reports.

// outputBySuffix are the formats that the name of a file tells.
var outputBySuffix = map[string]string{
	".info": "lcov", ".lcov": "lcov", ".json": "json", ".xml": "cobertura", ".html": "html", ".md": "markdown", ".csv": "csv",
}

// mergesReports tells whether the arguments of footfall merge are about
// reports: one names a file, or an output that is one. gcov-tool knows
// directories only.
func mergesReports(args []string) bool {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return slices.ContainsFunc(args[i+1:], isRegular)
		case name == "-o" || name == "--output":
			if !joined && i+1 < len(args) {
				i++
				value = args[i]
			}
			if isReportOutput(value) {
				return true
			}
		case strings.HasPrefix(arg, "-o") && !strings.HasPrefix(arg, "--"):
			if isReportOutput(arg[len("-o"):]) {
				return true
			}
		case name == "-w" || name == "--weight":
			if !joined {
				i++
			}
		case name == "--intersect" || name == "--subtract":
			return true
		case !strings.HasPrefix(arg, "-") && isRegular(arg):
			return true
		}
	}
	return false
}

func isRegular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// isReportOutput tells whether a report is to be written to o: a file whose
// name ends as one, or FORMAT=FILE.
func isReportOutput(o string) bool {
	if info, err := os.Stat(o); err == nil && info.IsDir() {
		return false
	}
	if outputBySuffix[filepath.Ext(o)] != "" {
		return true
	}
	return isOutput(o)
}

// isOutput tells whether text is FORMAT=FILE.
func isOutput(text string) bool {
	return strings.Contains(text, "=") && output.Check(text, report.Formats()) == nil
}

type mergeOptions struct {
	reportOptions
	intersect, subtract []string
	ofData              *source.Sources // of which headers of the system are left out
}

// newMergeReportsCommand returns the command that merges reports. It is no
// command of its own: footfall merge calls it. options are what a file of
// options says, nil for none.
func newMergeReportsCommand(options *config) *cobra.Command {
	var o mergeOptions
	cmd := &cobra.Command{
		Use:           "merge",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if options != nil {
				if _, err := options.apply(cmd); err != nil {
					return configError(err)
				}
			}
			return o.run(cmd, args)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	f := cmd.Flags()
	f.StringArrayVarP(&o.outputs, "output", "o", nil, "")
	f.StringArrayVar(&o.intersect, "intersect", nil, "")
	f.StringArrayVar(&o.subtract, "subtract", nil, "")
	f.StringArrayVar(&o.objectDirs, "object-directory", nil, "")
	f.StringArrayVar(&o.binaries, "object", nil, "")
	f.StringVar(&o.sources.Root, "root", "", "")
	f.StringArrayVar(&o.sources.PathMaps, "path-map", nil, "")
	f.StringArrayVar(&o.sources.Include, "include", nil, "")
	f.StringArrayVar(&o.sources.Exclude, "exclude", nil, "")
	o.exclude.define(f)
	f.BoolVar(&o.exceptionBranches, "exception-branches", false, "")
	f.BoolVar(&o.sources.SystemHeaders, "system-headers", false, "")
	f.StringVar(&o.test, "test", "", "")
	defineMaxInput(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "")
	shareFlags(cmd)
	for _, dir := range []string{"object-directory", "root"} {
		_ = cmd.MarkFlagDirname(dir)
	}
	return cmd
}

// cutConfigFlags takes --config and --no-config out of arguments. file is that
// of --config, "" if there is none.
func cutConfigFlags(args []string) (rest []string, file string, err error) {
	none := false
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch {
		case name == "--":
			return append(rest, args[i:]...), file, nil
		case args[i] == "--no-config":
			none = true
		case name == "--config":
			if !joined && i+1 < len(args) {
				i++
				value = args[i]
			}
			if file = value; file == "" {
				return nil, "", errors.New("--config needs the name of a file")
			}
		default:
			rest = append(rest, args[i])
		}
	}
	if none && file != "" {
		return nil, "", errors.New("--config and --no-config do not go together")
	}
	return rest, file, nil
}

func (o *mergeOptions) run(cmd *cobra.Command, paths []string) error {
	if err := o.name(); err != nil {
		return usageError(err)
	}
	if !cmd.Flags().Changed("exception-branches") {
		o.exceptionBranches = !slices.ContainsFunc(o.outputs, mixesExceptions)
	}
	var err error
	if o.ofData, err = source.NewSources(o.sources); err != nil {
		return usageError(err)
	}
	o.sources.SystemHeaders = true // a report has those that were asked for
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return usageError(errors.New("merge needs reports, or directories with coverage data"))
	}
	// What is merged is thrown away file by file: little of it lives.
	defer collectLate(400, lateUpTo)()
	merged, err := o.load(p, paths)
	if err != nil {
		return err
	}
	if len(o.intersect) > 0 {
		other, err := o.load(p, o.intersect)
		if err != nil {
			return err
		}
		merged.Set = report.Intersect(merged.Set, other.Set)
		merged.NotBefore(other)
	}
	if len(o.subtract) > 0 {
		other, err := o.load(p, o.subtract)
		if err != nil {
			return err
		}
		report.Subtract(merged.Set, other.Set)
		merged.NotBefore(other)
	}
	o.excludeOfReports(p, merged, merged.Finish)
	return missed(p.Print(merged.Findings()))
}

// mixesExceptions tells whether the format of an output does not say which
// branches are those of exceptions: in it they would count as others.
func mixesExceptions(out string) bool {
	format, _, _ := strings.Cut(out, "=")
	return format != "lcov" && format != "lcov2" && format != "json"
}

// name puts the formats before outputs that are told by the names of files.
func (o *mergeOptions) name() error {
	if len(o.outputs) == 0 {
		return errors.New("merge of reports needs -o FILE, or -o FORMAT=FILE")
	}
	for i, out := range o.outputs {
		if isOutput(out) {
			continue
		}
		format := outputBySuffix[filepath.Ext(out)]
		if name, _, isOne := strings.Cut(out, "="); format == "" && (out == "" || isOne) && !strings.Contains(name, "/") {
			return output.Check(out, report.Formats())
		}
		if format == "" {
			return fmt.Errorf("output %q: its name tells no format, say which as in lcov=%s", out, out)
		}
		o.outputs[i] = format + "=" + out
	}
	return nil
}

// load reads and merges inputs, which are not reconciled.
func (o *mergeOptions) load(p *printer, paths []string) (*collect.Result, error) {
	options := p.collecting()
	options.Sources, options.ReportSources = o.ofData, p.Sources
	r, err := collect.Gather(paths, options)
	if err != nil {
		return nil, err
	}
	source.PrintProblems(p.Stderr, r.Problems, o.verbose)
	if err := r.Nothing(paths); err != nil {
		return nil, err
	}
	r.Say(p.notes, o.verbose)
	o.sayExcluded(p, r)
	return r, nil
}

// excludeOfReports takes out of what was loaded what is to be taken out of reports, and says it.
func (o *mergeOptions) excludeOfReports(p *printer, r *collect.Result, exclusion func()) {
	ofData := r.Excluded
	r.Problems, r.Excluded = nil, exclude.Excluded{} // which have been told
	exclusion()
	source.PrintProblems(p.Stderr, r.Problems, o.verbose)
	o.sayExcluded(p, r)
	r.Excluded.Add(ofData)
}

func (o *mergeOptions) sayExcluded(p *printer, r *collect.Result) {
	if len(r.Excluded.List) > 0 {
		fmt.Fprintf(p.notes, "footfall: %v\n", r.Excluded)
	}
}
