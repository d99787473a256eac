package demangle

import (
	"strconv"
	"strings"
)

// A printer writes a tree as GNU's demangler does.
//
// C++ writes a type around what it belongs to: int (*f())[3]. So modifiers,
// function and array types, and the names of functions wait in a list until
// what stands before them is printed; what nobody has taken then is printed
// behind.
//
// Template parameters are looked up while printing, in the innermost template
// around. Where a substitution is printed in another place than the one where it
// was read that may be another template; GNU's demangler then prints another
// type than the one meant, or nothing, and so does this one.
type printer struct {
	out  []byte
	last byte // the last character; that of ", " even after that was taken back

	gcc       int
	leaveOut  form
	failed    bool
	steps     int
	depth     int
	templates *templates // those whose arguments parameters mean, innermost first
	mods      *modifier  // what waits
	inLambda  int        // parameters are printed as auto
	pack      int        // which element of a pack is printed; -1: all
	current   *node      // the template that is printed
	path      []*node    // what is being printed
	scopes    []scope
	heads     *heads
}

type templates struct {
	next *templates
	node *node
}

type modifier struct {
	next      *modifier
	node      *node
	printed   bool
	templates *templates
}

// A scope remembers in which templates a parameter behind a reference was
// printed first.
type scope struct {
	node      *node
	templates *templates
}

type heads struct {
	next *heads
	node *node
}

// GNU's demangler gives up on deeper trees.
const mostPrintDepth = 1024

// mostPrintSteps and mostText bound what substitutions can make of a short name:
// each may double what is before it.
const (
	mostPrintSteps = 1 << 20
	mostText       = 1 << 20
)

func (p *printer) text(s string) {
	if s != "" {
		p.out = append(p.out, s...)
		p.last = s[len(s)-1]
	}
}

func (p *printer) char(c byte) {
	p.out = append(p.out, c)
	p.last = c
}

func (p *printer) number(n int) {
	p.out = strconv.AppendInt(p.out, int64(n), 10)
	p.last = p.out[len(p.out)-1]
}

// node prints n, unless it is within itself.
func (p *printer) node(n *node) {
	if n == nil || n.printing > 1 || p.depth > mostPrintDepth || p.steps > mostPrintSteps || len(p.out) > mostText {
		p.failed = true
	}
	if p.failed {
		return
	}
	p.steps++
	n.printing++
	p.depth++
	p.path = append(p.path, n)
	p.inner(n)
	p.path = p.path[:len(p.path)-1]
	p.depth--
	n.printing--
}

func (p *printer) inner(n *node) {
	switch n.kind {
	case kName, kExtended:
		p.text(n.text)
	case kStdName:
		text := n.text
		if p.leaveOut&noTemplateArguments != 0 {
			text, _, _ = strings.Cut(text, "<")
		}
		p.text(text)
	case kBuiltin:
		p.text(builtins[n.num].name)
	case kOperator:
		name := operators[n.num].name
		p.text("operator")
		if isLower(name[0]) {
			p.char(' ')
		}
		if name[len(name)-1] == ' ' {
			name = name[:len(name)-1]
		}
		p.text(name)
	case kVendorOp:
		p.text("operator ")
		p.node(n.left)
	case kNumber:
		p.number(int(n.num))
	case kTemplateParm:
		p.templateParm(n)
	case kFunctionParm:
		if n.num == 0 {
			p.text("this")
			return
		}
		p.text("{parm#")
		p.number(int(n.num))
		p.char('}')
	case kUnnamed:
		p.text("{unnamed type#")
		p.number(int(n.num) + 1)
		p.char('}')
	case kUnnamedEnum:
		p.text("{enum:")
		p.node(n.left)
		p.char('{')
		p.node(n.right)
		p.text("}}")
	case kLambda:
		p.lambda(n)
	case kTaggedName:
		p.node(n.left)
		p.text("[abi:")
		p.node(n.right)
		p.char(']')
	case kBinding:
		p.char('[')
		for ; n != nil; n = n.right {
			p.node(n.left)
			if n.right != nil {
				p.text(", ")
			}
		}
		p.char(']')
	case kModule, kPartition:
		if n.left != nil {
			p.node(n.left)
		}
		if n.kind == kPartition {
			p.char(':')
		} else if n.left != nil {
			p.char('.')
		}
		p.node(n.right)
	case kModuleEntity:
		p.node(n.left)
		p.char('@')
		p.node(n.right)
	case kFriend:
		p.node(n.left)
		p.text("[friend]")
	case kQualified, kLocal:
		p.node(n.left)
		p.text("::")
		p.node(p.defaultArg(n.right))
	case kTyped:
		p.typed(n)
	case kTemplate:
		p.template(n)
	case kConstraint:
		p.node(n.left)
		p.text(" requires ")
		p.node(n.right)
	case kClone:
		p.node(n.left)
		p.text(" [clone ")
		p.node(n.right)
		p.char(']')
	case kConstructor, kCast, kVendorType:
		p.node(n.left)
	case kDestructor:
		p.char('~')
		p.node(n.left)
	case kConversion:
		p.text("operator ")
		p.conversion(n)
	case kList, kArgs:
		p.list(n)
	case kDecltype:
		p.text("decltype (")
		p.node(n.left)
		p.char(')')
	case kPackExpansion:
		p.expansion(n)
	case kFixed:
		p.fixed(n)
	case kFunction:
		p.function(n)
	case kArray:
		p.array(n)
	case kVector, kMemberPointer:
		m := modifier{p.mods, n, false, p.templates}
		p.mods = &m
		p.node(n.right)
		if !m.printed {
			p.modifier(n)
		}
		p.mods = m.next
	case kRestrict, kVolatile, kConst:
		// Of arrays it may be in the list already.
		for m := p.mods; m != nil; m = m.next {
			if m.printed {
				continue
			}
			if kindInfo[m.node.kind].flags&isQualifier == 0 {
				break
			}
			if m.node.kind == n.kind {
				p.node(n.left)
				return
			}
		}
		p.modified(n, n.left)
	case kReference, kRvalueReference:
		p.reference(n)
	case kNullary:
		p.operator(n.left)
	case kUnary:
		p.unary(n)
	case kBinary:
		p.binary(n)
	case kTrinary:
		p.trinary(n)
	case kInitList:
		if n.left != nil {
			p.node(n.left)
		}
		p.char('{')
		p.node(n.right)
		p.char('}')
	case kVendorExpr:
		p.node(n.left)
		p.char('(')
		p.node(n.right)
		p.char(')')
	case kLiteral, kNegative:
		p.literal(n)
	case kSubobject:
		p.char('(')
		p.node(n.left)
		p.char(')')
		p.node(n.right)
	case kConstructionVtable:
		p.text(kindInfo[n.kind].text)
		p.node(n.left)
		p.text("-in-")
		p.node(n.right)
	case kTemporary:
		p.text(kindInfo[n.kind].text)
		p.node(n.right)
		p.text(" for ")
		p.node(n.left)
	default:
		switch {
		case n.kind >= kVtable:
			p.text(kindInfo[n.kind].text)
			p.node(n.left)
		case n.kind >= kPointer && n.kind <= kThrows:
			p.modified(n, n.left)
		default:
			p.failed = true
		}
	}
}

// defaultArg prints in which default argument a name is, and returns the name.
func (p *printer) defaultArg(n *node) *node {
	if n.kind != kDefaultArg {
		return n
	}
	p.text("{default arg#")
	p.number(int(n.num) + 1)
	p.text("}::")
	return n.left
}

// modified prints inner with the modifier n.
func (p *printer) modified(n, inner *node) {
	m := modifier{p.mods, n, false, p.templates}
	p.mods = &m
	p.node(inner)
	if !m.printed {
		p.modifier(n)
	}
	p.mods = m.next
}

// typed prints a function. Its name and the qualifiers of this go down to the
// type, which prints them where they belong.
func (p *printer) typed(n *node) {
	hold := p.mods
	p.mods = nil
	var waiting [4]modifier
	i := 0
	name := n.left
	for name != nil {
		if i == len(waiting) {
			p.failed = true
			return
		}
		waiting[i] = modifier{p.mods, name, false, p.templates}
		p.mods = &waiting[i]
		i++
		if kindInfo[name.kind].flags&ofFunction == 0 {
			break
		}
		name = name.left
	}
	if name != nil && name.kind == kLocal {
		// Qualifiers of what is in a function are those of the whole.
		name = name.right
		if name.kind == kDefaultArg {
			name = name.left
		}
		for name != nil && kindInfo[name.kind].flags&ofFunction != 0 {
			if i == len(waiting) {
				p.failed = true
				return
			}
			waiting[i] = waiting[i-1]
			waiting[i].next = &waiting[i-1]
			p.mods = &waiting[i]
			waiting[i-1].node = name
			waiting[i-1].printed = false
			waiting[i-1].templates = p.templates
			i++
			name = name.left
		}
	}
	if name == nil {
		p.failed = true
		return
	}
	if name.kind == kTemplate {
		p.templates = &templates{p.templates, name}
		constraint := name.right
		if constraint.kind == kConstraint {
			name.right = constraint.left
		}
		p.node(n.right)
		if name.right != constraint {
			p.text(" requires ")
			p.node(constraint.right)
			name.right = constraint
		}
		p.templates = p.templates.next
	} else {
		p.node(n.right)
	}
	for ; i > 0; i-- {
		if !waiting[i-1].printed {
			p.char(' ')
			p.modifier(waiting[i-1].node)
		}
	}
	p.mods = hold
}

// template prints a template with its arguments, which see no modifiers.
func (p *printer) template(n *node) {
	current, mods := p.current, p.mods
	p.current, p.mods = n, nil
	p.node(n.left)
	p.arguments(n.right)
	p.current, p.mods = current, mods
}

// arguments prints them in brackets, with a space where two would be one
// operator.
func (p *printer) arguments(n *node) {
	if p.leaveOut&noTemplateArguments != 0 {
		return
	}
	if p.last == '<' {
		p.char(' ')
	}
	p.char('<')
	p.node(n)
	if p.last == '>' {
		p.char(' ')
	}
	p.char('>')
}

func (p *printer) templateParm(n *node) {
	if p.inLambda > 0 {
		if p.headParm(int(n.num)) {
			return
		}
		p.text("auto:")
		p.number(int(n.num) + 1)
		return
	}
	a := p.element(p.argument(n))
	if a == nil {
		p.failed = true
		return
	}
	// The argument may mention a parameter of a template around.
	hold := p.templates
	p.templates = hold.next
	p.node(a)
	p.templates = hold
}

// argument is what a template parameter stands for; nil if there is none.
func (p *printer) argument(n *node) *node {
	if p.templates == nil {
		p.failed = true
		return nil
	}
	return nth(p.templates.node.right, int(n.num))
}

// element is the element of a pack that is printed at the moment, or what is no
// pack itself.
func (p *printer) element(a *node) *node {
	if a != nil && a.kind == kArgs {
		return nth(a, p.pack)
	}
	return a
}

func nth(args *node, i int) *node {
	if i < 0 {
		return args
	}
	for ; args != nil; args = args.right {
		if args.kind != kArgs {
			return nil
		}
		if i == 0 {
			return args.left
		}
		i--
	}
	return nil
}

// reference prints a reference. One to a parameter that is a reference is
// that, or the lesser of both.
func (p *printer) reference(n *node) {
	sub, inner := n.left, n.left
	hold := p.templates
	if p.inLambda == 0 && sub.kind == kTemplateParm {
		if s := p.scope(sub); s == nil {
			p.scopes = append(p.scopes, scope{sub, p.templates})
		} else if !p.within(sub, n) {
			p.templates = s.templates
		}
		sub = p.element(p.argument(sub))
		if sub == nil {
			p.templates = hold
			p.failed = true
			return
		}
	}
	if sub.kind == kReference || sub.kind == n.kind {
		n, inner = sub, sub.left
	} else if sub.kind == kRvalueReference {
		inner = sub.left
	}
	p.modified(n, inner)
	p.templates = hold
}

func (p *printer) scope(n *node) *scope {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if p.scopes[i].node == n {
			return &p.scopes[i]
		}
	}
	return nil
}

// within tells whether what is printed is within parm, or within ref above the
// current one.
func (p *printer) within(parm, ref *node) bool {
	for i, n := range p.path {
		if n == parm || n == ref && i < len(p.path)-1 {
			return true
		}
	}
	return false
}

// list prints what is in a list, and no comma behind the last that prints
// anything.
func (p *printer) list(n *node) {
	if n.left != nil {
		p.node(n.left)
	}
	end := len(p.out)
	depth := p.depth
	for n = n.right; n != nil && !p.failed; n = n.right {
		if p.depth++; p.depth > mostPrintDepth {
			p.failed = true
			break
		}
		p.text(", ")
		start := len(p.out)
		if n.left != nil {
			p.node(n.left)
		}
		if len(p.out) > start {
			end = len(p.out)
		}
	}
	p.depth = depth
	if end < len(p.out) {
		p.out = p.out[:end]
		if p.gcc == lenient && end > 0 {
			p.last = p.out[end-1] // otherwise it stays that of ", "
		}
	}
}

func (p *printer) expansion(n *node) {
	var pack *node
	if p.inLambda == 0 || p.gcc < 13 {
		pack = p.findPack(n.left)
	}
	if pack == nil {
		// Only parameters of functions are packs there.
		p.operand(n.left)
		p.text("...")
		return
	}
	for i, length := 0, packLength(pack); i < length && !p.failed; i++ {
		if i > 0 {
			p.text(", ")
		}
		p.pack = i
		p.node(n.left)
	}
}

// findPack is the first pack that a pattern mentions.
func (p *printer) findPack(n *node) *node {
	if n == nil || p.failed {
		return nil
	}
	if p.steps++; p.steps > mostPrintSteps {
		p.failed = true
		return nil
	}
	switch {
	case n.kind == kTemplateParm:
		if a := p.argument(n); a != nil && a.kind == kArgs {
			return a
		}
		return nil
	case n.kind == kPackExpansion, kindInfo[n.kind].flags&isLeaf != 0:
		return nil
	}
	if a := p.findPack(n.left); a != nil {
		return a
	}
	return p.findPack(n.right)
}

func packLength(n *node) int {
	length := 0
	for ; n != nil && n.kind == kArgs && n.left != nil; n = n.right {
		length++
	}
	return length
}

// function prints a function type, or a function whose name waits.
func (p *printer) function(n *node) {
	if n.left != nil {
		m := modifier{p.mods, n, false, p.templates}
		p.mods = &m
		p.node(n.left)
		p.mods = m.next
		if m.printed {
			return
		}
		p.char(' ')
	}
	p.signature(n, p.mods)
}

// signature prints what waits, in parentheses if it is a pointer or the like,
// the parameters, and qualifiers of this.
func (p *printer) signature(n *node, mods *modifier) {
	paren, space, explicit := false, false, false
	for m := mods; m != nil && !m.printed && !paren; m = m.next {
		switch m.node.kind {
		case kPointer, kReference, kRvalueReference:
			paren = true
		case kRestrict, kVolatile, kConst, kVendorQualifier, kComplex, kImaginary, kMemberPointer:
			paren, space = true, true
		case kExplicitThis:
			explicit = true
		}
	}
	if paren {
		if p.last != '(' && p.last != '*' {
			space = true
		}
		if space && p.last != ' ' {
			p.char(' ')
		}
		p.char('(')
	}
	hold := p.mods
	p.mods = nil
	p.modifiers(mods, false)
	if paren {
		p.char(')')
	}
	p.char('(')
	if explicit {
		p.text("this ")
	}
	if n.right != nil {
		p.node(n.right)
	}
	p.char(')')
	p.modifiers(mods, true)
	p.mods = hold
}

// array prints an array type. Its qualifiers are those of its elements.
func (p *printer) array(n *node) {
	hold := p.mods
	var waiting [4]modifier
	waiting[0] = modifier{hold, n, false, p.templates}
	p.mods = &waiting[0]
	i := 1
	for m := hold; m != nil && kindInfo[m.node.kind].flags&isQualifier != 0; m = m.next {
		if m.printed {
			continue
		}
		if i == len(waiting) {
			p.failed = true
			return
		}
		waiting[i] = *m
		waiting[i].next = p.mods
		p.mods = &waiting[i]
		m.printed = true
		i++
	}
	p.node(n.right)
	p.mods = hold
	if waiting[0].printed {
		return
	}
	for i--; i > 0; i-- {
		p.modifier(waiting[i].node)
	}
	p.bounds(n, p.mods)
}

// bounds prints what waits and the size of an array.
func (p *printer) bounds(n *node, mods *modifier) {
	space, paren := true, false
	for m := mods; m != nil; m = m.next {
		if m.printed {
			continue
		}
		if m.node.kind == kArray {
			space = false
		} else {
			paren = true
		}
		break
	}
	if paren {
		p.text(" (")
	}
	p.modifiers(mods, false)
	if paren {
		p.char(')')
	}
	if space {
		p.char(' ')
	}
	p.char('[')
	if n.left != nil {
		p.node(n.left)
	}
	p.char(']')
}

// modifiers prints what waits; qualifiers of functions only behind the
// parameters.
func (p *printer) modifiers(m *modifier, behind bool) {
	hold := p.templates
	for ; m != nil && !p.failed; m = m.next {
		if m.printed || !behind && kindInfo[m.node.kind].flags&ofFunction != 0 {
			continue
		}
		m.printed = true
		p.templates = m.templates
		switch m.node.kind {
		case kFunction:
			p.signature(m.node, m.next)
			p.templates = hold
			return
		case kArray:
			p.bounds(m.node, m.next)
			p.templates = hold
			return
		case kLocal:
			mods := p.mods
			p.mods = nil
			p.node(m.node.left)
			p.mods = mods
			p.text("::")
			n := p.defaultArg(m.node.right)
			for n != nil && kindInfo[n.kind].flags&ofFunction != 0 {
				n = n.left
			}
			p.node(n)
			p.templates = hold
			return
		}
		p.modifier(m.node)
		p.templates = hold
	}
}

func (p *printer) modifier(n *node) {
	switch n.kind {
	case kMemberPointer:
		if p.last != '(' {
			p.char(' ')
		}
		p.node(n.left)
		p.text("::*")
	case kTyped:
		p.node(n.left)
	case kVector:
		p.text(" __vector(")
		p.node(n.left)
		p.char(')')
	case kNoexcept, kThrows:
		p.text(kindInfo[n.kind].text)
		if n.right != nil {
			p.char('(')
			p.node(n.right)
			p.char(')')
		}
	case kVendorQualifier:
		p.char(' ')
		p.node(n.right)
	default:
		if n.kind >= kPointer && n.kind <= kThrows {
			p.text(kindInfo[n.kind].text)
			return
		}
		p.node(n)
	}
}

// conversion prints the type of a conversion, which may mention parameters of
// the template that the conversion is.
func (p *printer) conversion(n *node) {
	hold := p.templates
	if p.current != nil {
		p.templates = &templates{hold, p.current}
	}
	t := n.left
	if t.kind != kTemplate || p.gcc >= 14 {
		p.node(t)
		p.templates = hold
		return
	}
	p.node(t.left)
	p.templates = hold
	p.arguments(t.right)
}

// fixed prints a fixed-point type: _Sat short _Accum.
func (p *printer) fixed(n *node) {
	if n.num&2 != 0 {
		p.text("_Sat ")
	}
	if n.left.kind != kBuiltin || n.left.num != builtinInt {
		p.node(n.left)
		p.char(' ')
	}
	if n.num&1 != 0 {
		p.text("_Accum")
	} else {
		p.text("_Fract")
	}
}

func (p *printer) operator(n *node) {
	if n.kind == kOperator {
		p.text(operators[n.num].name)
		return
	}
	p.node(n)
}

// operand prints an operand, in parentheses if it is more than a name.
func (p *printer) operand(n *node) {
	simple := n != nil && kindInfo[n.kind].flags&isSimple != 0 && p.gcc != oldLLVM
	if !simple {
		p.char('(')
	}
	p.node(n)
	if !simple {
		p.char(')')
	}
}

// code is that of an operator, "" for those of vendors.
func (n *node) code() string {
	if n.kind != kOperator {
		return ""
	}
	return operators[n.num].code
}

func (p *printer) unary(n *node) {
	op, x := n.left, n.right
	code := op.code()
	switch code {
	case "ad": // of a function, without its parameters
		if x.kind == kTyped && x.left.kind == kQualified && x.right.kind == kFunction {
			x = x.left
		}
	case "sZ": // the length of a pack
		p.number(packLength(p.findPack(x)))
		return
	case "sP":
		p.number(p.length(x))
		return
	}
	if x.kind == kSuffix {
		p.operand(x.left)
		p.operator(op)
		return
	}
	if op.kind == kCast {
		p.char('(')
		p.node(op.left)
		p.char(')')
	} else {
		p.operator(op)
	}
	switch code {
	case "gs":
		p.node(x)
	case "st", "nx":
		p.char('(')
		p.node(x)
		p.char(')')
	default:
		p.operand(x)
	}
}

// length is the number of template arguments with those in packs.
func (p *printer) length(n *node) int {
	length := 0
	for ; n != nil && n.kind == kArgs && n.left != nil; n = n.right {
		if n.left.kind == kPackExpansion {
			length += packLength(p.findPack(n.left.left))
		} else {
			length++
		}
	}
	return length
}

func (p *printer) binary(n *node) {
	op, x, y := n.left, n.right.left, n.right.right
	code := op.code()
	switch {
	case isNewCast(code):
		p.operator(op)
		p.char('<')
		p.node(x)
		p.text(">(")
		p.node(y)
		p.char(')')
		return
	case code[0] == 'f':
		p.fold(code, x, y, nil)
		return
	case code == "di" || code == "dx":
		p.designated(code, x, nil, y)
		return
	}
	member := code == "dt" || code == "pt"
	if code == "gt" {
		p.char('(')
	}
	switch {
	case code == "cl" && x.kind == kTyped: // the function alone
		if x.right.kind != kFunction {
			p.failed = true
		}
		p.operand(x.left)
	case (code == "cl" || member) && p.gcc == oldLLVM:
		p.node(x)
	default:
		p.operand(x)
	}
	switch code {
	case "ix":
		p.char('[')
		p.node(y)
		p.char(']')
	case "cl":
		p.operand(y)
	default:
		p.operator(op)
		if member && p.gcc == oldLLVM {
			p.node(y)
		} else {
			p.operand(y)
		}
	}
	if code == "gt" {
		p.char(')')
	}
}

// fold prints (... op x), (x op ...) or (x op ... op y).
func (p *printer) fold(code string, op, x, y *node) {
	hold := p.pack
	p.pack = -1
	p.char('(')
	if code[1] != 'l' {
		p.operand(x)
		p.operator(op)
	}
	p.text("...")
	if code[1] != 'r' {
		p.operator(op)
		if y == nil {
			y = x
		}
		p.operand(y)
	}
	p.char(')')
	p.pack = hold
}

// designated prints .x=value, [x]=value or [x ... y]=value.
func (p *printer) designated(code string, x, y, value *node) {
	if code == "di" {
		p.char('.')
	} else {
		p.char('[')
	}
	p.node(x)
	if y != nil {
		p.text(" ... ")
		p.node(y)
	}
	if code != "di" {
		p.char(']')
	}
	if value != nil && (value.kind == kBinary || value.kind == kTrinary) {
		if c := value.left.code(); c == "di" || c == "dx" || c == "dX" {
			p.node(value)
			return
		}
	}
	p.char('=')
	p.operand(value)
}

func (p *printer) trinary(n *node) {
	op, x, y, z := n.left, n.right.left, n.right.right.left, n.right.right.right
	switch code := op.code(); code {
	case "fL", "fR":
		p.fold(code, x, y, z)
	case "dX":
		p.designated(code, x, y, z)
	case "qu":
		p.operand(x)
		p.operator(op)
		p.operand(y)
		p.text(" : ")
		p.operand(z)
	default:
		p.text("new ")
		if x.left != nil {
			p.operand(x)
			p.char(' ')
		}
		p.node(y)
		if z != nil {
			p.operand(z)
		}
	}
}

func (p *printer) literal(n *node) {
	t, value := n.left, n.right
	style := literalCast
	switch t.kind {
	case kBuiltin:
		style = builtins[t.num].literal
	case kExtended:
		style = literalStyle(t.num)
	}
	switch {
	case style >= literalPlain && style <= literalULL:
		if n.kind == kNegative {
			p.char('-')
		}
		p.node(value)
		p.text(literalSuffix[style])
		return
	case style == literalBool && n.kind == kLiteral && value.text == "0":
		p.text("false")
		return
	case style == literalBool && n.kind == kLiteral && value.text == "1":
		p.text("true")
		return
	}
	p.char('(')
	p.node(t)
	p.char(')')
	if n.kind == kNegative {
		p.char('-')
	}
	if style == literalFloat {
		p.char('[')
	}
	p.node(value)
	if style == literalFloat {
		p.char(']')
	}
}

// lambda prints a lambda with the parameters that it has. Those of templates
// are auto.
func (p *printer) lambda(n *node) {
	p.text("{lambda")
	hold := p.heads
	p.heads = &heads{nil, n.right}
	p.inLambda++
	if n.right != nil {
		p.char('<')
		p.head(n.right)
		p.char('>')
	}
	p.char('(')
	p.node(n.left)
	p.inLambda--
	p.heads = hold
	p.text(")#")
	p.number(int(n.num) + 1)
	p.char('}')
}

// head prints the template parameters of a lambda.
func (p *printer) head(n *node) {
	for i := 0; n != nil && !p.failed; n, i = n.right, i+1 {
		if i > 0 {
			p.text(", ")
		}
		p.declaration(n.left, false)
		p.char(' ')
		p.parmName(n.left, i)
	}
}

func (p *printer) declaration(n *node, pack bool) {
	switch n.kind {
	case kTypeParm:
		p.text("typename")
	case kNonTypeParm:
		p.node(n.left)
	case kTemplateTmpParm:
		p.text("template<")
		for h := n.left; h != nil && !p.failed; h = h.right {
			if h != n.left {
				p.text(", ")
			}
			p.declaration(h.left, false)
		}
		p.text("> class")
	case kPackParm:
		p.declaration(n.left, true)
		p.text("...")
	}
}

func (p *printer) parmName(n *node, i int) {
	for n.kind == kPackParm {
		n = n.left
	}
	switch n.kind {
	case kTypeParm:
		p.text("$T")
	case kNonTypeParm:
		p.text("$N")
	case kTemplateTmpParm:
		p.text("$TT")
	}
	p.number(i)
}

// headParm prints the template parameter of a lambda by its place, if it has
// that many.
func (p *printer) headParm(i int) bool {
	if p.heads == nil {
		return false
	}
	n := p.heads.node
	for k := 0; n != nil; n, k = n.right, k+1 {
		if k == i {
			p.parmName(n.left, i)
			return true
		}
	}
	return false
}
