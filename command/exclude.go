package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"footfall/coverage"
	"footfall/report"
)

// excludeOptions are the options of reports that leave something out.
type excludeOptions struct {
	report.ExcludeOptions
	list bool
}

func (o *excludeOptions) define(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Lines, "exclude-lines", nil, "leave out lines whose text matches `REGEX`; may be repeated")
	f.StringArrayVar(&o.Branches, "exclude-branches", nil, "leave out the branches of lines whose text matches `REGEX`; may be repeated")
	f.StringArrayVar(&o.Functions, "exclude-functions", nil, "leave out functions whose name, of the linker or of the language, matches `GLOB`; may be repeated")
	f.BoolVar(&o.NonCode, "exclude-noncode", false, "leave out what the compiler puts on lines without code, such as a lone }: branches, and lines that never ran")
	f.BoolVar(&o.NoMarkers, "no-markers", false, "take no notice of exclusion markers in the sources")
	f.StringArrayVar(&o.MarkerPrefixes, "marker-prefix", report.MarkerPrefixes, "markers are `NAME`_EXCL_LINE and so on; may be repeated")
}

// defineList adds the option that shows what the others did.
func (o *excludeOptions) defineList(f *pflag.FlagSet) {
	f.BoolVar(&o.list, "list-excluded", false, "list what is left out, and by which rule, in place of the table")
}

// exclude takes out of the set what is not to be reported.
func (p *printer) exclude(set *coverage.Set) (problems []report.Problem) {
	p.excluded, problems = p.exclusions.Apply(set, p.sources.Shown)
	return problems
}

// allExcluded returns an error if nothing is left to report.
func (p *printer) allExcluded(set *coverage.Set) error {
	if len(set.Files) > 0 || len(p.excluded.List) == 0 {
		return nil
	}
	return fmt.Errorf("nothing to report: %v, which is all", p.excluded)
}

// noteExcluded says how much is not in the report, unless that is listed.
func (p *printer) noteExcluded() {
	listed := slices.ContainsFunc(p.reportOptions.outputs, func(o string) bool { return strings.HasPrefix(o, "excluded") })
	if len(p.excluded.List) > 0 && !listed {
		fmt.Fprintf(p.stderr, "footfall: %v; --list-excluded lists them\n", p.excluded)
	}
}
