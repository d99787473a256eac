package demangle

func (p *parser) expression() *node {
	was := p.inExpression
	p.inExpression = true
	n := p.operand()
	p.inExpression = was
	return n
}

// operand reads an expression within one.
func (p *parser) operand() *node {
	if p.depth++; p.depth > mostDepth {
		return nil
	}
	defer func() { p.depth-- }()
	c, c2 := p.peek(0), p.peek(1)
	switch {
	case c == 'L':
		return p.literal()
	case c == 'T':
		return p.templateParm()
	case c == 's' && c2 == 'o' && p.gcc >= lenient:
		return p.subobject()
	case c == 's' && c2 == 'r':
		return p.unresolved()
	case c == 's' && c2 == 'p':
		p.pos += 2
		return p.make(kPackExpansion, p.operand(), nil)
	case c == 'f' && c2 == 'p':
		return p.functionParm()
	case isDigit(c) || c == 'o' && c2 == 'n':
		if c == 'o' {
			p.pos += 2
		}
		return p.withArgs(p.unqualified(nil, nil))
	case (c == 'i' || c == 't') && c2 == 'l':
		p.pos += 2
		var t *node
		if c == 't' {
			t = p.typ()
		}
		if p.peek(0) == 0 || p.peek(1) == 0 {
			return nil
		}
		return p.make(kInitList, t, p.list('E'))
	case c == 'u' && p.gcc >= 11:
		p.pos++
		name := p.sourceName()
		return p.make(kVendorExpr, name, p.args())
	}
	return p.operation()
}

// withArgs reads the template arguments of a name in an expression.
func (p *parser) withArgs(n *node) *node {
	if n == nil || p.peek(0) != 'I' {
		return n
	}
	return p.make(kTemplate, n, p.templateArgs())
}

func (p *parser) functionParm() *node {
	p.pos += 2
	if p.skip('T') {
		return p.numbered(kFunctionParm, 0, nil)
	}
	i := p.index()
	if i < 0 {
		return nil
	}
	return p.numbered(kFunctionParm, i+1, nil)
}

// unresolved reads sr, a scope and a name. Where the scope is a name it has an
// E behind it, but GCC writes it as a type, which has none: who fails to read
// the one tries again with the other.
func (p *parser) unresolved() *node {
	p.pos += 2
	var scope *node
	if c := p.peek(0); p.qualifiers != 0 && (isDigit(c) || isLower(c) || c == 'C' || c == 'U' || c == 'L') {
		p.qualifiers = -1
		scope = p.prefix(false)
		p.skip('E')
	} else {
		scope = p.typ()
	}
	if p.gcc >= 13 {
		return p.withArgs(p.unqualified(scope, nil))
	}
	return p.make(kQualified, scope, p.withArgs(p.unqualified(nil, nil)))
}

// subobject reads so, a type, an expression, an offset, and what is left out
// in print: the members of unions.
func (p *parser) subobject() *node {
	p.pos += 2
	t := p.typ()
	e := p.operand()
	n := p.make(kSubobject, t, e)
	if n == nil {
		return nil
	}
	n.num = int32(p.number())
	for p.skip('_') {
		p.number()
	}
	p.skip('p')
	if !p.skip('E') {
		return nil
	}
	return n
}

// operation reads an operator and its operands.
func (p *parser) operation() *node {
	op := p.operatorName()
	if op == nil {
		return nil
	}
	code, args := "", 1
	switch op.kind {
	case kOperator:
		code, args = operators[op.num].code, operators[op.num].args
	case kVendorOp:
		args = int(op.num)
	case kCast:
	default:
		return nil
	}
	switch args {
	case 0:
		return p.make(kNullary, op, nil)
	case 1:
		return p.make(kUnary, op, p.unaryOperand(op, code))
	case 2:
		if code == "" {
			return nil
		}
		left := p.firstOperand(code)
		return p.make(kBinary, op, p.make(kOperands, left, p.secondOperand(code)))
	case 3:
		if code == "" {
			return nil
		}
		return p.trinary(op, code)
	}
	return nil
}

func (p *parser) unaryOperand(op *node, code string) *node {
	switch {
	case code == "st":
		return p.typ()
	case code == "pp" || code == "mm":
		if p.skip('_') { // before the operand
			return p.operand()
		}
		return p.make(kSuffix, p.operand(), nil)
	case op.kind == kCast && p.skip('_'):
		return p.list('E')
	case code == "sP":
		return p.args()
	}
	return p.operand()
}

func isNewCast(code string) bool {
	return code[1] == 'c' && (code[0] == 's' || code[0] == 'd' || code[0] == 'c' || code[0] == 'r')
}

func (p *parser) firstOperand(code string) *node {
	switch {
	case isNewCast(code):
		return p.typ()
	case code[0] == 'f': // a fold
		return p.operatorName()
	case code == "di":
		return p.unqualified(nil, nil)
	}
	return p.operand()
}

func (p *parser) secondOperand(code string) *node {
	switch code {
	case "cl":
		return p.list('E')
	case "dt", "pt":
		if c, c2 := p.peek(0), p.peek(1); c == 'g' && c2 == 's' || c == 's' && c2 == 'r' {
			return p.operand()
		}
		return p.withArgs(p.unqualified(nil, nil))
	}
	return p.operand()
}

func (p *parser) trinary(op *node, code string) *node {
	var first, second, third *node
	switch {
	case code == "qu" || code == "dX":
		first, second, third = p.operand(), p.operand(), p.operand()
		if third == nil {
			return nil
		}
	case code[0] == 'f':
		first, second, third = p.operatorName(), p.operand(), p.operand()
		if third == nil {
			return nil
		}
	default: // new
		first, second = p.list('_'), p.typ()
		switch {
		case p.skip('E'):
		case p.skip2("pi"):
			third = p.list('E')
		case p.peek(0) == 'i' && p.peek(1) == 'l':
			third = p.operand()
		default:
			return nil
		}
	}
	if first == nil || second == nil {
		return nil
	}
	rest := p.node(kOperands)
	if rest == nil {
		return nil
	}
	rest.left, rest.right = second, third
	return p.make(kTrinary, op, p.make(kOperands, first, rest))
}

// list reads expressions up to the end.
func (p *parser) list(end byte) *node {
	if p.skip(end) {
		return p.make(kList, nil, nil)
	}
	var first *node
	tail := &first
	for {
		e := p.expression()
		if e == nil {
			return nil
		}
		n := p.make(kList, e, nil)
		if n == nil {
			return nil
		}
		*tail = n
		tail = &n.right
		if p.skip(end) {
			return first
		}
	}
}

// literal reads L, a type, digits and E; or a symbol.
func (p *parser) literal() *node {
	if !p.skip('L') {
		return nil
	}
	var n *node
	if c := p.peek(0); c == '_' || c == 'Z' {
		n = p.nested()
	} else {
		t := p.typ()
		if t == nil {
			return nil
		}
		if t.kind == kBuiltin && t.num == nullptrType && p.skip('E') {
			return t
		}
		k := kLiteral
		if p.skip('n') {
			k = kNegative
		}
		start := p.pos
		for p.peek(0) != 'E' {
			if p.next() == 0 {
				return nil
			}
		}
		n = p.make(k, t, p.name(p.s[start:p.pos]))
	}
	if !p.skip('E') {
		return nil
	}
	return n
}
