//go:build linux

package collect

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"footfall/output"
)

// PrintRan writes which functions of programs ran, which did not, and of which it is not known,
// each list by size, the largest first: with a width, that of a terminal, no more than fit there.
func PrintRan(w io.Writer, programs []*RanProgram, shown func(path string) string, width int) error {
	b := bufio.NewWriter(w)
	for n, p := range programs {
		if n > 0 {
			fmt.Fprintln(b)
		}
		p.print(b, shown, width)
	}
	return b.Flush()
}

// mostListed is how many functions of a list a terminal gets.
const mostListed = 30

func (p *RanProgram) print(b *bufio.Writer, shown func(path string) string, width int) {
	defer p.names.open()()
	var ran, not, unknown []*RanFunction
	var bytesRan, bytesNot uint64
	for _, fn := range p.Functions {
		switch {
		case fn.Ran:
			ran, bytesRan = append(ran, fn), bytesRan+uint64(fn.Size)
		case fn.Unknown != 0:
			unknown = append(unknown, fn)
		default:
			not, bytesNot = append(not, fn), bytesNot+uint64(fn.Size)
		}
	}
	fmt.Fprintf(b, "%s: %d of %s ran, %d of %s of code", output.Printable(p.ShortName()), len(ran), output.Plural(len(ran)+len(not), "function"), bytesRan, output.Plural(int(bytesRan+bytesNot), "byte"))
	if len(unknown) > 0 {
		fmt.Fprintf(b, "; of %d more it is not known", len(unknown))
	}
	fmt.Fprintln(b)
	for _, list := range []struct {
		title     string
		functions []*RanFunction
	}{{"ran", ran}, {"did not run", not}, {"unknown", unknown}} {
		printFunctions(b, list.title, list.functions, shown, width)
	}
}

func printFunctions(b *bufio.Writer, title string, functions []*RanFunction, shown func(path string) string, width int) {
	if len(functions) == 0 {
		return
	}
	slices.SortStableFunc(functions, func(a, b *RanFunction) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Addr, b.Addr))
	})
	list := functions
	if width > 0 {
		list = list[:min(len(list), mostListed)]
	}
	names, widest := make([]string, len(list)), len(title)
	most := 60
	if width > 0 {
		most = max(20, width/2)
	}
	for i, fn := range list {
		names[i] = output.Printable(fn.Name())
		widest = max(widest, min(most, utf8.RuneCountInString(names[i])))
	}
	fmt.Fprintf(b, "\n    size  %s\n", title)
	for i, fn := range list {
		where := fn.Unknown.String()
		if file := fn.File(); where == "" && file != "" {
			where = output.Printable(shown(file)) + ":" + strconv.Itoa(int(fn.Line))
		}
		if where == "" {
			fmt.Fprintf(b, "%8d  %s\n", fn.Size, names[i])
		} else {
			fmt.Fprintf(b, "%8d  %-*s  %s\n", fn.Size, widest, names[i], where)
		}
	}
	if more := len(functions) - len(list); more > 0 {
		fmt.Fprintf(b, "          and %d more\n", more)
	}
}
