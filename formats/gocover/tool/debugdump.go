package tool

import (
	"fmt"
	"strings"

	"footfall/formats/gocover"
)

// A debugDump is covdata debugdump: all that the files say, as it comes.
type debugDump struct {
	*dump
	pkgOf               *gocover.Package // nil: its name has been printed
	statements, covered int
}

func (r *run) newDebugDump() (operation, error) {
	d, err := r.newDump()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.Stdout, `/* WARNING: the format of this dump is not stable and is
 * expected to change from one Go release to the next.
 *
 * produced by:
 *	covdata %s
 */
`, strings.Join(r.Args, " "))
	return &debugDump{dump: d}, nil
}

func (d *debugDump) pod(p *pod) error {
	if err := d.dump.pod(p); err != nil {
		return err
	}
	fmt.Fprintf(d.Stdout, "Cover mode: %s\nCover granularity: %s\n", p.meta.Mode, p.meta.Granularity)
	return nil
}

func (d *debugDump) file(name string, _ int, args map[string]string) {
	fmt.Fprintf(d.Stdout, "data file %s", name)
	for _, key := range []string{"GOOS", "GOARCH"} {
		if args[key] != "" {
			fmt.Fprintf(d.Stdout, " %s=%s", key, args[key])
		}
	}
	if list := argumentsOf(args); len(list) > 0 {
		fmt.Fprintf(d.Stdout, "  program args: %v\n", list)
	}
	fmt.Fprintln(d.Stdout)
}

func (d *debugDump) pkg(_ int, p *gocover.Package) error {
	d.pkgOf = p
	return nil
}

func (d *debugDump) function(pkg, index int, f *gocover.FuncDesc) error {
	counts := d.counts[functionKey{uint32(pkg), uint32(index)}]
	if counts != nil && len(counts) < len(f.Units) {
		return tooFewCounts(counts, f)
	}
	shown := counts != nil || !d.live
	if p := d.pkgOf; shown && p != nil {
		fmt.Fprintf(d.Stdout, "\nPackage path: %s\nPackage name: %s\nModule path: %s\n", p.Path, p.Name, p.Module)
		d.pkgOf = nil
	}
	if shown {
		fmt.Fprintf(d.Stdout, "\nFunc: %s\nSrcfile: %s\nLiteral: %v\n", f.Name, f.File, f.Literal)
	}
	for i, u := range f.Units {
		var n uint32
		if counts != nil {
			n = counts[i]
		}
		if shown {
			fmt.Fprintf(d.Stdout, "%d: L%d:C%d -- L%d:C%d NS=%d = %d\n", i, u.Line, u.Column, u.EndLine, u.EndColumn, u.Statements, n)
		}
		d.statements += int(u.Statements)
		if n != 0 {
			d.covered += int(u.Statements)
		}
	}
	return nil
}

// endPod forgets the mode, which other programs may have otherwise.
func (d *debugDump) endPod() error {
	d.adder = adder{relaxed: true}
	return nil
}

func (d *debugDump) finish() error {
	fmt.Fprintf(d.Stdout, "totalStmts: %d coveredStmts: %d\n", d.statements, d.covered)
	return nil
}
