package demangle

import "strings"

// typ reads a type.
func (p *parser) typ() *node {
	if p.depth++; p.depth > mostDepth {
		return nil
	}
	defer func() { p.depth-- }()
	if p.isQualifier() {
		return p.qualifiedType()
	}
	var n *node
	switch c := p.peek(0); c {
	case 'F':
		n = p.functionType()
	case 'A':
		n = p.arrayType()
	case 'M':
		p.pos++
		class := p.typ()
		n = p.make(kMemberPointer, class, p.typ())
	case 'T':
		n = p.templateParm()
		if p.peek(0) == 'I' {
			n = p.templateOfParm(n)
		}
	case 'O':
		p.pos++
		n = p.make(kRvalueReference, p.typ(), nil)
	case 'P':
		p.pos++
		n = p.make(kPointer, p.typ(), nil)
	case 'R':
		p.pos++
		n = p.make(kReference, p.typ(), nil)
	case 'C':
		p.pos++
		n = p.make(kComplex, p.typ(), nil)
	case 'G':
		p.pos++
		n = p.make(kImaginary, p.typ(), nil)
	case 'U':
		n = p.vendorQualified()
	case 'D':
		done := false
		if n, done = p.typeD(); done {
			return n
		}
	case 'S':
		if next := p.peek(1); isDigit(next) || next == '_' || isUpper(next) {
			return p.substitutedType()
		}
		n = p.anyName()
		if n != nil && n.kind == kStdName {
			return n
		}
	case 'u':
		p.pos++
		n = p.make(kVendorType, p.sourceName(), nil)
	default:
		if isLower(c) && builtins[c-'a'].name != "" {
			p.pos++
			return p.numbered(kBuiltin, int(c-'a'), nil)
		}
		if p.gcc < 13 && c != 'N' && c != 'Z' && !isDigit(c) {
			return nil
		}
		n = p.anyName()
	}
	if !p.substitutable(n) {
		return nil
	}
	return n
}

// substitutedType reads a type that was there before, or a template that was
// and its arguments.
func (p *parser) substitutedType() *node {
	n := p.substitution(false)
	switch {
	case n != nil && isModule(n):
		n = p.unqualified(nil, n)
		if p.peek(0) == 'I' {
			if !p.substitutable(n) {
				return nil
			}
			n = p.make(kTemplate, n, p.templateArgs())
		}
	case p.peek(0) == 'I':
		n = p.make(kTemplate, n, p.templateArgs())
	default:
		return n
	}
	if !p.substitutable(n) {
		return nil
	}
	return n
}

// qualifiedType reads qualifiers and a type. The type and that with all
// qualifiers are substitutable, those with some are not, nor is the function
// type whose this they qualify.
func (p *parser) qualifiedType() *node {
	var n *node
	inner := p.cvQualifiers(&n, false)
	if inner == nil {
		return nil
	}
	if p.peek(0) == 'F' {
		*inner = p.functionType()
	} else {
		*inner = p.typ()
	}
	t := *inner
	if t == nil {
		return nil
	}
	if t.kind == kReferenceThis || t.kind == kRvalueReferenceThis {
		// () const &, not () & const
		f := t.left
		t.left, n = n, t
		*inner = f
	}
	if !p.substitutable(n) {
		return nil
	}
	return n
}

func (p *parser) isQualifier() bool {
	switch p.peek(0) {
	case 'r', 'V', 'K':
		return true
	case 'D':
		switch p.peek(1) {
		case 'x', 'o', 'O', 'w':
			return true
		}
	}
	return false
}

// cvQualifiers reads qualifiers into *n, and returns where what they qualify
// belongs; nil for bad ones.
func (p *parser) cvQualifiers(n **node, member bool) **node {
	start := n
	for p.isQualifier() {
		var k kind
		var right *node
		switch p.next() {
		case 'r':
			k = kRestrict
		case 'V':
			k = kVolatile
		case 'K':
			k = kConst
		default:
			switch p.next() {
			case 'x':
				k = kTransactionSafe
			case 'o':
				k = kNoexcept
			case 'O':
				k = kNoexcept
				if right = p.expression(); right == nil || !p.skip('E') {
					return nil
				}
			case 'w':
				k = kThrows
				if right = p.parameters(); right == nil || !p.skip('E') {
					return nil
				}
			}
		}
		if member && k <= kConst {
			k += kRestrictThis - kRestrict
		}
		q := p.make(k, nil, right)
		if q == nil {
			return nil
		}
		*n = q
		n = &q.left
	}
	if !member && p.peek(0) == 'F' {
		for ; start != n; start = &(*start).left {
			if k := (*start).kind; k >= kRestrict && k <= kConst {
				(*start).kind += kRestrictThis - kRestrict
			}
		}
	}
	return n
}

func (p *parser) refQualifier(n *node) *node {
	switch {
	case p.skip('R'):
		return p.make(kReferenceThis, n, nil)
	case p.skip('O'):
		return p.make(kRvalueReferenceThis, n, nil)
	}
	return n
}

func (p *parser) functionType() *node {
	if !p.skip('F') {
		return nil
	}
	p.skip('Y') // extern "C"
	n := p.signature(true)
	if n == nil {
		return nil
	}
	n = p.refQualifier(n)
	if !p.skip('E') {
		return nil
	}
	return n
}

// signature reads the types of a function: what it returns, if that is there,
// and its parameters.
func (p *parser) signature(result bool) *node {
	if p.skip('J') {
		result = true
	}
	var left *node
	if result {
		if left = p.typ(); left == nil {
			return nil
		}
	}
	parms := p.parameters()
	if parms == nil {
		return nil
	}
	return p.make(kFunction, left, parms)
}

// parameters reads types, at least one. A single void is none.
func (p *parser) parameters() *node {
	var first *node
	tail := &first
	for {
		c := p.peek(0)
		if c == 0 || c == 'E' || c == '.' || c == 'Q' && p.gcc >= 14 {
			break
		}
		if (c == 'R' || c == 'O') && p.peek(1) == 'E' {
			break // of a function
		}
		t := p.typ()
		if t == nil {
			return nil
		}
		n := p.make(kList, t, nil)
		if n == nil {
			return nil
		}
		*tail = n
		tail = &n.right
	}
	if first != nil && first.right == nil && first.left.kind == kBuiltin && first.left.num == builtinVoid {
		first.left = nil
	}
	return first
}

func (p *parser) arrayType() *node {
	p.pos++
	var size *node
	switch c := p.peek(0); {
	case c == '_':
	case isDigit(c):
		start := p.pos
		for isDigit(p.peek(0)) {
			p.pos++
		}
		size = p.name(p.s[start:p.pos])
	default:
		if size = p.expression(); size == nil {
			return nil
		}
	}
	if !p.skip('_') {
		return nil
	}
	return p.make(kArray, size, p.typ())
}

// templateOfParm reads the arguments of a template that is a parameter. In a
// conversion they may be those of the conversion, "operator T<int>": that is so
// unless others follow.
func (p *parser) templateOfParm(n *node) *node {
	if !p.inConversion {
		if !p.substitutable(n) {
			return nil
		}
		return p.make(kTemplate, n, p.templateArgs())
	}
	pos, subs := p.pos, len(p.subs)
	args := p.templateArgs()
	if p.peek(0) == 'I' {
		if !p.substitutable(n) {
			return nil
		}
		return p.make(kTemplate, n, args)
	}
	p.pos, p.subs = pos, p.subs[:subs]
	return n
}

func (p *parser) vendorQualified() *node {
	if p.gcc >= 16 {
		switch p.peek(1) {
		case 'l', 'e', 't':
			return p.unqualified(nil, nil)
		}
	}
	p.pos++
	q := p.sourceName()
	if p.peek(0) == 'I' {
		q = p.make(kTemplate, q, p.templateArgs())
	}
	return p.make(kVendorQualifier, p.typ(), q)
}

// typeD reads a type that begins with D. It tells whether that is done, not to
// be substituted.
func (p *parser) typeD() (n *node, done bool) {
	p.pos++
	c := p.next()
	switch c {
	case 'T', 't':
		n = p.make(kDecltype, p.expression(), nil)
		if n != nil && !p.skip('E') {
			n = nil
		}
		return n, false
	case 'p':
		return p.make(kPackExpansion, p.typ(), nil), false
	case 'v':
		return p.vectorType(), false
	case 'a':
		return p.name("auto"), true
	case 'c':
		return p.name("decltype(auto)"), true
	case 'F':
		return p.floatType(), true
	}
	if i := strings.IndexByte(letterD, c); c != 0 && i >= 0 {
		return p.numbered(kBuiltin, builtinD+i, nil), true
	}
	return nil, true
}

// floatType reads the rest of DF16_, DF16b or DF32x.
func (p *parser) floatType() *node {
	if p.gcc < 13 {
		return p.fixedType()
	}
	start := p.pos
	for isDigit(p.peek(0)) {
		p.pos++
	}
	digits := p.s[start:p.pos]
	text, style := "_Float"+digits, literalCast
	switch {
	case digits == "":
		return nil
	case p.skip('_'):
	case p.skip('x'):
		text += "x"
	case digits == "16" && p.skip('b'):
		text, style = "std::bfloat16_t", literalFloat
	default:
		return nil
	}
	n := p.numbered(kExtended, int(style), nil)
	if n != nil {
		n.text = text
	}
	return n
}

// fixedType reads what DF was in GCC 12 and before: a number if it accumulates,
// a type, a number, and s if it saturates.
func (p *parser) fixedType() *node {
	flags := 0
	if isDigit(p.peek(0)) {
		p.number()
		flags = 1
	}
	t := p.typ()
	p.number()
	if p.next() == 's' {
		flags |= 2
	}
	return p.numbered(kFixed, flags, t)
}

func (p *parser) vectorType() *node {
	var size *node
	if p.skip('_') {
		size = p.expression()
	} else {
		size = p.numbered(kNumber, p.number(), nil)
	}
	if size == nil || !p.skip('_') {
		return nil
	}
	return p.make(kVector, size, p.typ())
}

func (p *parser) templateParm() *node {
	if !p.skip('T') {
		return nil
	}
	i := p.index()
	if i < 0 {
		return nil
	}
	return p.numbered(kTemplateParm, i, nil)
}

func (p *parser) templateArgs() *node {
	if !p.skip('I') && !p.skip('J') {
		return nil
	}
	return p.args()
}

// args reads template arguments up to E.
func (p *parser) args() *node {
	if p.depth++; p.depth > mostDepth {
		return nil
	}
	defer func() { p.depth-- }()
	last := p.last
	if p.skip('E') {
		return p.make(kArgs, nil, nil)
	}
	var first *node
	tail := &first
	for {
		a := p.templateArg()
		if a == nil {
			return nil
		}
		n := p.make(kArgs, a, nil)
		if n == nil {
			return nil
		}
		*tail = n
		tail = &n.right
		if p.gcc >= 14 && p.skip('Q') {
			if first = p.make(kConstraint, first, p.expression()); first == nil || p.peek(0) != 'E' {
				return nil
			}
		}
		if p.skip('E') {
			break
		}
	}
	p.last = last
	return first
}

func (p *parser) templateArg() *node {
	switch p.peek(0) {
	case 'X':
		p.pos++
		n := p.expression()
		if !p.skip('E') {
			return nil
		}
		return n
	case 'L':
		return p.literal()
	case 'I', 'J':
		return p.templateArgs()
	}
	return p.typ()
}
