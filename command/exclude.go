package command

import (
	"fmt"
	"footfall/report/exclude"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// excludeOptions are the options of reports that leave something out.
type excludeOptions struct {
	exclude.Options
	list bool
}

func (o *excludeOptions) define(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Lines, "exclude-lines", nil, "leave out lines whose text matches `REGEX`; may be repeated")
	f.StringArrayVar(&o.Branches, "exclude-branches", nil, "leave out the branches of lines whose text matches `REGEX`; may be repeated")
	f.StringArrayVar(&o.Functions, "exclude-functions", nil, "leave out functions whose name, of the linker or of the language, matches `GLOB`; may be repeated")
	f.BoolVar(&o.NonCode, "exclude-noncode", false, "leave out what the compiler puts on lines without code, such as a lone }: branches, and lines that never ran")
	f.BoolVar(&o.NoMarkers, "no-markers", false, "take no notice of exclusion markers in the sources")
	f.StringArrayVar(&o.MarkerPrefixes, "marker-prefix", exclude.MarkerPrefixes, "markers are `NAME`_EXCL_LINE and so on; may be repeated")
}

// defineList adds the option that shows what the others did.
func (o *excludeOptions) defineList(f *pflag.FlagSet) {
	f.BoolVar(&o.list, "list-excluded", false, "list what is left out, and by which rule, in place of the table")
}

// noteExcluded says how much is not in the report, unless that is listed.
func (p *printer) noteExcluded(excluded exclude.Excluded) {
	listed := slices.ContainsFunc(p.outputsWanted(), func(o string) bool { return strings.HasPrefix(o, "excluded") })
	if len(excluded.List) > 0 && !listed {
		fmt.Fprintf(p.notes, "footfall: %v; --list-excluded lists them\n", excluded)
	}
}
