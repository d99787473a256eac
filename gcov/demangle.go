package gcov

import (
	"strings"
	"sync"

	"github.com/ianlancetaylor/demangle"
)

// emptyPack stands for what an empty pack of template arguments prints.
const emptyPack = "\x01"

// A demangler remembers names: most functions of a header are in many objects.
// It may be used by several goroutines.
type demangler struct {
	mu    sync.Mutex
	names map[demangleKey]string
}

type demangleKey struct {
	name        string
	conversions bool
}

// mostNames bounds the memory of a demangler.
const mostNames = 1 << 16

func (d *demangler) demangled(name string, v Version) string {
	key := demangleKey{name, v.demanglesConversions()}
	d.mu.Lock()
	plain, ok := d.names[key]
	d.mu.Unlock()
	if ok {
		return plain
	}
	plain = demangled(name, v)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil || len(d.names) >= mostNames {
		d.names = make(map[demangleKey]string)
	}
	d.names[key] = plain
	return plain
}

// demangled is the name as GNU's demangler shows it, with parameters.
func demangled(name string, v Version) string {
	conversion := !v.demanglesConversions() && strings.Contains(name, "cv")
	pack := strings.Contains(name, "JE")
	if !strings.HasPrefix(name, "_Z") || !conversion && !pack {
		return demangle.Filter(name)
	}
	ast, err := demangle.ToAST(name)
	if err != nil {
		return name
	}
	if conversion && convertsToTemplate(ast) {
		return name
	}
	if pack {
		ast.Traverse(func(a demangle.AST) bool {
			switch a := a.(type) {
			case *demangle.Template:
				markEmpty(a.Args)
			case *demangle.ArgumentPack:
				markEmpty(a.Args)
			}
			return true
		})
	}
	return cutEmpty(demangle.ASTToString(ast))
}

// convertsToTemplate tells whether the name is, or contains, that of a
// conversion by a template to a template of its parameter, "operator Box<T>",
// which GNU's demangler could not show.
func convertsToTemplate(ast demangle.AST) bool {
	found := false
	ast.Traverse(func(a demangle.AST) bool {
		t, ok := a.(*demangle.Template)
		if !ok {
			return true
		}
		name := t.Name
		if q, ok := name.(*demangle.Qualified); ok {
			name = q.Name
		}
		if cast, ok := name.(*demangle.Cast); ok {
			if _, ok := cast.To.(*demangle.Template); ok {
				found = true
			}
		}
		return true
	})
	return found
}

// markEmpty puts a mark in place of the arguments that print nothing.
func markEmpty(args []demangle.AST) {
	for i, a := range args {
		if printsNothing(a) {
			args[i] = &demangle.Name{Name: emptyPack}
		}
	}
}

func printsNothing(a demangle.AST) bool {
	switch a := a.(type) {
	case *demangle.ArgumentPack:
		for _, arg := range a.Args {
			if !printsNothing(arg) {
				return false
			}
		}
		return true
	case *demangle.ExprList:
		return len(a.Exprs) == 0
	case *demangle.PackExpansion:
		return a.Pack != nil && printsNothing(a.Base)
	case *demangle.Name:
		return a.Name == emptyPack
	}
	return false
}

// cutEmpty takes the marks out. The comma before those at the end of a list
// goes with them, other commas stay, and no space keeps the brackets apart:
// "f<, A<B>>".
func cutEmpty(s string) string {
	parts := strings.Split(s, emptyPack)
	out := parts[len(parts)-1]
	for i := len(parts) - 2; i >= 0; i-- {
		p := parts[i]
		if strings.HasPrefix(out, ">") {
			p = strings.TrimSuffix(p, ", ")
		}
		out = p + out
	}
	return out
}
