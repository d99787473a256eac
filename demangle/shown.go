package demangle

import (
	"fmt"
	"strings"
)

// This file decides how the name of a function is shown to people, and by which names
// they may choose it. In lists of functions of a program a name has no parameters; in
// traces and chains of callers, where overloaded functions stand side by side, it has.
// Tables have names of the standard library as sources do (standard.go); formats for
// other programs have them in full.

// Short is the name in reports and profiles: "Stack<int>::push".
func Short(symbol string) string { return inForm(symbol, noParameters) }

// Full is the name in traces and chains of callers, with parameters and what a template
// returns: "void Stack<int>::push(int)".
func Full(symbol string) string { return inForm(symbol, whole) }

// Bare is the name without parameters and without arguments of templates: "Stack::push".
func Bare(symbol string) string { return inForm(symbol, noParameters|noTemplateArguments) }

// mostColumn is the longest name that has the arguments of templates in a table.
const mostColumn = 60

// InColumn is the name in tables where there is little room: one that is too long loses
// the arguments of its templates; that of an overloaded function has the parameters. short
// is the function's name as [Short] has it, or another that is known of it.
func InColumn(symbol, short string, overloaded bool) string {
	short = Standard(short)
	switch {
	case overloaded:
		if s := Standard(Full(symbol)); len(s) <= mostColumn {
			return s
		}
		return Standard(inForm(symbol, noTemplateArguments))
	case len(short) <= mostColumn || !strings.Contains(short, "<"):
		return short
	}
	return Standard(Bare(symbol))
}

// Title is what people call the function that all the symbols, one at least, are instances
// of: the name that they share without parameters, and how many names there are if several:
// "Cache<...>::put (3 instances)".
func Title(symbols []string) string {
	name, names := common(symbols, noParameters)
	if name = Standard(name); names == 1 {
		return name
	}
	return fmt.Sprintf("%s (%d instances)", name, names)
}

// Signature is the name that all the symbols, one at least, have in common, and the
// parameters apart: "(int)", "(...)" if they differ, "" in C.
func Signature(symbols []string) (name, params string) {
	short := shared(symbols, noParameters)
	if short == symbols[0] {
		return short, ""
	}
	_, params, same := strings.Cut(shared(symbols, whole), short) // a template's return type stands before it
	if !same {
		params = "(...)"
	}
	return short, params
}

// Spellings are the names by which people may choose a function: as the linker knows it,
// and as the language writes it, with parameters, without, and without template arguments
// as well, and as tables show it. A part that GCC made of a function of C has the function's name too.
func Spellings(symbol string) []string {
	full := inForm(symbol, noClones)
	if full == symbol {
		plain, _, _ := strings.Cut(symbol, ".") // name.part.0
		return []string{symbol, plain}
	}
	names := []string{symbol, full, Short(symbol), Bare(symbol)}
	return append(names, standardNames(names)...)
}

// Opening returns the index of the parenthesis that the last one in a name closes, -1 if
// there is none.
func Opening(name string) int {
	depth := 0
	for i := len(name) - 1; i >= 0; i-- {
		switch name[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
