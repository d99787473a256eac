package demangle

import "strings"

// A node is a part of a name. Substitutions share nodes: the tree is a graph,
// in which a name as bytes from outside may even have circles.
type node struct {
	kind        kind
	printing    uint8 // how often it is being printed at the moment
	num         int32
	left, right *node
	text        string
}

// A parser reads a mangled name. Its methods are the productions of the
// Itanium C++ ABI, section 5.1; they return nil for what is none, and whoever
// gets nil for what it needs returns nil.
type parser struct {
	s   string
	pos int
	gcc int

	subs         []*node // what S_, S0_ and so on stand for
	last         *node   // the last name: a constructor has no other
	inExpression bool    // cv is a cast
	inConversion bool    // the type of a conversion: template arguments may be those of the operator
	qualifiers   int8    // sr6scalar is a name and its qualifiers, which end with an E (1; -1: and there were some), or a type (0)
	depth        int
	steps        int

	nodes []node
	used  int
}

// mostSteps bounds the nodes of a name, which a conversion in a conversion
// doubles each time.
const mostSteps = 1 << 16

// mostDepth bounds the recursion where names may be longer than GNU's.
const mostDepth = 1 << 13

func (p *parser) node(k kind) *node {
	if p.steps++; p.steps > mostSteps {
		return nil
	}
	if p.used == len(p.nodes) {
		p.nodes, p.used = make([]node, 256), 0
	}
	n := &p.nodes[p.used]
	p.used++
	*n = node{kind: k}
	return n
}

func (p *parser) make(k kind, left, right *node) *node {
	needs := kindInfo[k].flags
	if needs&needsLeft != 0 && left == nil || needs&needsRight != 0 && right == nil {
		return nil
	}
	n := p.node(k)
	if n != nil {
		n.left, n.right = left, right
	}
	return n
}

func (p *parser) name(text string) *node {
	if text == "" {
		return nil
	}
	n := p.node(kName)
	if n != nil {
		n.text = text
	}
	return n
}

func (p *parser) numbered(k kind, num int, left *node) *node {
	n := p.make(k, left, nil)
	if n != nil {
		n.num = int32(num)
	}
	return n
}

// peek is the character i places on, 0 behind the end.
func (p *parser) peek(i int) byte {
	if p.pos+i < len(p.s) {
		return p.s[p.pos+i]
	}
	return 0
}

func (p *parser) next() byte {
	c := p.peek(0)
	if c != 0 {
		p.pos++
	}
	return c
}

func (p *parser) skip(c byte) bool {
	if p.peek(0) != c {
		return false
	}
	p.pos++
	return true
}

func (p *parser) skip2(c string) bool {
	if p.peek(0) != c[0] || p.peek(1) != c[1] {
		return false
	}
	p.pos += 2
	return true
}

func (p *parser) substitutable(n *node) bool {
	if n == nil || len(p.subs) >= len(p.s) {
		return false
	}
	p.subs = append(p.subs, n)
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

// symbol reads a whole symbol: _Z, an encoding, and what compilers append to
// the names of copies; or the name of the constructors of a file.
func (p *parser) symbol() *node {
	if k := globals(p.s); k != kName {
		p.pos = len("_GLOBAL__I_")
		if !p.skip2("_Z") {
			return p.make(k, p.name(p.s[p.pos:]), nil)
		}
		return p.make(k, p.encoding(false), nil) // what follows is left out
	}
	p.pos = len("_Z")
	n := p.encoding(true)
	for n != nil && p.peek(0) == '.' && p.startsSuffix() {
		n = p.clone(n)
	}
	if p.pos < len(p.s) {
		return nil
	}
	return n
}

// globals tells whether a symbol begins as the name of the constructors or
// destructors of a file, which GCC wrote before 4.7.
func globals(s string) kind {
	if len(s) < 11 || s[:8] != "_GLOBAL_" || strings.IndexByte("._$", s[8]) < 0 || s[10] != '_' {
		return kName
	}
	switch s[9] {
	case 'I':
		return kConstructors
	case 'D':
		return kDestructors
	}
	return kName
}

func (p *parser) startsSuffix() bool {
	c := p.peek(1)
	return isLower(c) || c == '_' || isDigit(c)
}

// clone reads ".part.0", ".constprop.1.2" or ".sse4".
func (p *parser) clone(n *node) *node {
	start := p.pos
	if c := p.peek(1); isLower(c) || c == '_' || p.gcc >= 12 && isDigit(c) {
		p.pos += 2
		for c := p.peek(0); isLower(c) || c == '_' || p.gcc >= 12 && isDigit(c); c = p.peek(0) {
			p.pos++
		}
	}
	for p.peek(0) == '.' && isDigit(p.peek(1)) {
		p.pos += 2
		for isDigit(p.peek(0)) {
			p.pos++
		}
	}
	return p.make(kClone, n, p.name(p.s[start:p.pos]))
}

// nested reads _Z and an encoding in a name; old compilers omit the _.
func (p *parser) nested() *node {
	p.skip('_')
	if !p.skip('Z') {
		return nil
	}
	return p.encoding(false)
}

func (p *parser) encoding(top bool) *node {
	if p.depth++; p.depth > mostDepth {
		return nil
	}
	defer func() { p.depth-- }()
	if c := p.peek(0); c == 'G' || c == 'T' {
		return p.special()
	}
	n := p.anyName()
	if n == nil || p.peek(0) == 0 || p.peek(0) == 'E' {
		return n
	}
	signature := p.signature(hasResult(n))
	if signature == nil {
		return nil
	}
	if !top && n.kind == kLocal {
		signature.left = nil // it would look like that of the function around
	}
	return p.make(kTyped, n, p.constraints(signature))
}

// constraints reads a requires-clause, if there is one.
func (p *parser) constraints(n *node) *node {
	if p.gcc < 14 || !p.skip('Q') {
		return n
	}
	return p.make(kConstraint, n, p.expression())
}

// hasResult tells whether the type of a function of that name begins with what
// it returns: templates, but for those of constructors and conversions.
func hasResult(n *node) bool {
	for n != nil {
		switch {
		case n.kind == kLocal:
			n = n.right
		case n.kind == kTemplate:
			return !returnsNothing(n.left)
		case kindInfo[n.kind].flags&ofFunction != 0, n.kind == kFriend, n.kind == kConstraint:
			n = n.left
		default:
			return false
		}
	}
	return false
}

func returnsNothing(n *node) bool {
	for n != nil && (n.kind == kQualified || n.kind == kLocal) {
		n = n.right
	}
	return n != nil && (n.kind == kConstructor || n.kind == kDestructor || n.kind == kConversion)
}

// anyName reads a name that may be nested, local, in std or a template.
func (p *parser) anyName() *node {
	switch p.peek(0) {
	case 'N':
		return p.nestedName()
	case 'Z':
		return p.localName()
	case 'U':
		return p.unqualified(nil, nil)
	}
	var n, module *node
	substituted := false
	if p.peek(0) == 'S' {
		if p.skip2("St") {
			n = p.name("std")
		}
		if p.peek(0) == 'S' {
			module = p.substitution(false)
			if module == nil {
				return nil
			}
			if !isModule(module) {
				if n != nil {
					return nil
				}
				n, module, substituted = module, nil, true
			}
		}
	}
	if !substituted {
		n = p.unqualified(n, module)
	}
	if p.peek(0) == 'I' {
		if !substituted && !p.substitutable(n) {
			return nil
		}
		n = p.make(kTemplate, n, p.templateArgs())
	}
	return n
}

func isModule(n *node) bool { return n.kind == kModule || n.kind == kPartition }

// nestedName reads N, qualifiers of this, a prefix and E.
func (p *parser) nestedName() *node {
	p.pos++
	var n, ref *node
	var inner **node
	if p.gcc >= 14 && p.skip('H') {
		n = p.make(kExplicitThis, nil, nil)
		if n == nil {
			return nil
		}
		inner = &n.left
	} else {
		if inner = p.cvQualifiers(&n, true); inner == nil {
			return nil
		}
		ref = p.refQualifier(nil)
	}
	if *inner = p.prefix(true); *inner == nil {
		return nil
	}
	if ref != nil {
		ref.left, n = n, ref
	}
	if !p.skip('E') {
		return nil
	}
	return n
}

// prefix reads the parts of a nested name up to E.
func (p *parser) prefix(substitutable bool) *node {
	if p.gcc < 13 {
		return p.loosePrefix(substitutable)
	}
	var n *node
	for {
		c := p.peek(0)
		switch {
		case c == 0:
			return nil
		case c == 'D' && (p.peek(1) == 'T' || p.peek(1) == 't'):
			if n != nil {
				return nil
			}
			n = p.typ()
		case c == 'I':
			if n == nil {
				return nil
			}
			n = p.make(kTemplate, n, p.templateArgs())
		case c == 'T':
			if n != nil {
				return nil
			}
			n = p.templateParm()
		case c == 'M': // the initializer of a variable, which is a scope already
			p.pos++
			continue
		default:
			var module *node
			if c == 'S' {
				if module = p.substitution(true); module == nil {
					return nil
				}
				if !isModule(module) {
					if n != nil {
						return nil
					}
					n = module
					continue
				}
			}
			n = p.unqualified(n, module)
		}
		if n == nil || p.peek(0) == 'E' {
			return n
		}
		if substitutable && !p.substitutable(n) {
			return nil
		}
	}
}

// loosePrefix is prefix as GCC 12 and before read it: anything may follow
// anything, and what cannot be read drops what is before it. There gcov may
// not come to an end.
func (p *parser) loosePrefix(substitutable bool) *node {
	var n *node
	for {
		var part *node
		start, c := p.pos, p.peek(0)
		switch {
		case c == 'D' && (p.peek(1) == 'T' || p.peek(1) == 't'):
			part = p.typ()
		case isDigit(c) || isLower(c) || c == 'C' || c == 'D' || c == 'U' || c == 'L':
			part = p.unqualified(nil, nil)
		case c == 'S':
			part = p.substitution(true)
		case c == 'I' && n != nil:
			part = p.templateArgs()
		case c == 'T':
			part = p.templateParm()
		case c == 'E':
			return n
		case c == 'M' && n != nil:
			p.pos++
			continue
		}
		switch {
		case p.pos == start:
			return nil
		case c == 'I':
			n = p.make(kTemplate, n, part)
		case n == nil:
			n = part
		default:
			n = p.make(kQualified, n, part)
		}
		if c != 'S' && p.peek(0) != 'E' && substitutable && !p.substitutable(n) {
			return nil
		}
	}
}

// unqualified reads a name without its scope: an identifier, an operator, a
// constructor, a lambda.
func (p *parser) unqualified(scope, module *node) *node {
	if p.depth++; p.depth > mostDepth {
		return nil
	}
	defer func() { p.depth-- }()
	ok := true
	if p.gcc >= 13 {
		if module, ok = p.moduleName(module); !ok {
			return nil
		}
	}
	friend := p.gcc >= 14 && p.skip('F')
	n := p.simpleName()
	if n == nil {
		return nil
	}
	if module != nil {
		n = p.make(kModuleEntity, n, module)
	}
	if p.peek(0) == 'B' {
		n = p.tags(n)
	}
	if friend {
		n = p.make(kFriend, n, nil)
	}
	if scope != nil {
		n = p.make(kQualified, scope, n)
	}
	return n
}

func (p *parser) simpleName() *node {
	switch c := p.peek(0); {
	case isDigit(c):
		return p.sourceName()
	case isLower(c):
		was := p.inExpression
		if p.skip2("on") {
			p.inExpression = false // cv is a conversion
		}
		n := p.operatorName()
		p.inExpression = was
		if n != nil && n.kind == kCast {
			return nil
		}
		if n != nil && n.kind == kOperator && operators[n.num].code == "li" {
			n = p.make(kUnary, n, p.sourceName())
		}
		return n
	case c == 'D' && p.peek(1) == 'C' && p.gcc >= 13:
		return p.binding()
	case c == 'C' || c == 'D':
		return p.constructor()
	case c == 'L':
		p.pos++
		n := p.sourceName()
		if n == nil || !p.discriminator() {
			return nil
		}
		return n
	case c == 'U' && p.peek(1) == 'l':
		return p.lambda()
	case c == 'U' && p.peek(1) == 't':
		return p.unnamed()
	case c == 'U' && p.peek(1) == 'e' && p.gcc >= 16:
		return p.unnamedEnum()
	}
	return nil
}

// binding reads DC, the names of a structured binding and E.
func (p *parser) binding() *node {
	p.pos += 2
	var first, last *node
	for {
		n := p.make(kBinding, p.sourceName(), nil)
		if n == nil {
			return nil
		}
		if last == nil {
			first = n
		} else {
			last.right = n
		}
		last = n
		if p.skip('E') {
			return first
		}
	}
}

// moduleName reads W or WP and a name as often as it is there.
func (p *parser) moduleName(module *node) (*node, bool) {
	for p.skip('W') {
		k := kModule
		if p.skip('P') {
			k = kPartition
		}
		module = p.make(k, module, p.sourceName())
		if !p.substitutable(module) {
			return nil, false
		}
	}
	return module, true
}

func (p *parser) tags(n *node) *node {
	last := p.last // a tag is no name of a constructor
	for n != nil && p.skip('B') {
		n = p.make(kTaggedName, n, p.sourceName())
	}
	p.last = last
	return n
}

func (p *parser) sourceName() *node {
	size := p.number()
	if size <= 0 || size > len(p.s)-p.pos {
		return nil
	}
	text := p.s[p.pos : p.pos+size]
	p.pos += size
	if rest, ok := strings.CutPrefix(text, "_GLOBAL_"); ok && len(rest) >= 2 && strings.IndexByte("._$", rest[0]) >= 0 && rest[1] == 'N' {
		text = "(anonymous namespace)"
	}
	n := p.name(text)
	p.last = n
	return n
}

// number reads a decimal number that may be negative, which begins with n. It
// is -1 when too large, 0 when there is none.
func (p *parser) number() int {
	negative := p.skip('n')
	n := 0
	for ; isDigit(p.peek(0)); p.pos++ {
		d := int(p.peek(0) - '0')
		if n > (1<<31-1-d)/10 {
			return -1
		}
		n = n*10 + d
	}
	if negative {
		return -n
	}
	return n
}

// index reads _ for 0, 0_ for 1 and so on; -1 for what is neither.
func (p *parser) index() int {
	n := 0
	if c := p.peek(0); c == 'n' {
		return -1
	} else if c != '_' {
		n = p.number() + 1
	}
	if n < 0 || n == 1<<31 || !p.skip('_') {
		return -1
	}
	return n
}

func (p *parser) constructor() *node {
	kinds := "01245"
	k := kDestructor
	inherits := false
	if p.next() == 'C' {
		kinds, k = "12345", kConstructor
		inherits = p.skip('I')
	}
	c := p.peek(0)
	if c == 0 || strings.IndexByte(kinds, c) < 0 {
		return nil
	}
	p.pos++
	last := p.last
	if inherits {
		p.typ()
		last = p.last
	}
	return p.make(k, last, nil)
}

// operatorName reads the two letters of an operator, v and a name for one of
// a vendor, or cv and a type: a conversion, in expressions a cast.
func (p *parser) operatorName() *node {
	c1, c2 := p.next(), p.next()
	switch {
	case c1 == 'v' && isDigit(c2):
		return p.numbered(kVendorOp, int(c2-'0'), p.sourceName())
	case c1 == 'c' && c2 == 'v':
		was := p.inConversion
		p.inConversion = !p.inExpression
		n := p.typ()
		k := kCast
		if p.inConversion {
			k = kConversion
		}
		p.inConversion = was
		return p.make(k, n, nil)
	}
	lo, hi := 0, len(operators)
	for lo < hi {
		i := int(uint(lo+hi) / 2)
		switch code := operators[i].code; {
		case code[0] == c1 && code[1] == c2:
			if p.gcc < operators[i].since {
				return nil
			}
			return p.numbered(kOperator, i, nil)
		case code[0] < c1 || code[0] == c1 && code[1] < c2:
			lo = i + 1
		default:
			hi = i
		}
	}
	return nil
}

// localName reads Z, a function, E and what is in it.
func (p *parser) localName() *node {
	p.pos++
	function := p.encoding(false)
	if function == nil || !p.skip('E') {
		return nil
	}
	var n *node
	if p.skip('s') {
		if !p.discriminator() {
			return nil
		}
		n = p.name("string literal")
	} else {
		arg := -1
		if p.skip('d') {
			if arg = p.index(); arg < 0 {
				return nil
			}
		}
		n = p.anyName()
		if n != nil && n.kind != kLambda && n.kind != kUnnamed && !p.discriminator() {
			return nil
		}
		if arg >= 0 {
			n = p.numbered(kDefaultArg, arg, n)
		}
	}
	// Its result would look like that of what is in it.
	if f := function; f.kind == kTyped && f.right.kind == kFunction {
		f.right.left = nil
	}
	return p.make(kLocal, function, n)
}

// discriminator reads _0 or __10_, if there is one; false if it is wrong.
func (p *parser) discriminator() bool {
	if !p.skip('_') {
		return true
	}
	long := p.skip('_')
	n := p.number()
	if n < 0 {
		return false
	}
	return !long || n < 10 || p.skip('_')
}

func (p *parser) lambda() *node {
	p.pos += 2
	var head *node
	if p.gcc >= 13 && p.peek(0) == 'T' {
		h, ok := p.head()
		if !ok {
			return nil
		}
		head = h
	}
	parms := p.parameters()
	if parms == nil || !p.skip('E') {
		return nil
	}
	i := p.index()
	if i < 0 {
		return nil
	}
	n := p.make(kLambda, parms, head)
	if n == nil {
		return nil
	}
	n.num = int32(i)
	if p.gcc < 11 && !p.substitutable(n) {
		return nil
	}
	return n
}

// head reads the template parameters of a lambda: Ty a type, Tn a value, Tt a
// template, Tp before one a pack. It stops before T_, which is a use of one.
func (p *parser) head() (*node, bool) {
	var first *node
	tail := &first
	for p.peek(0) == 'T' && isLower(p.peek(1)) {
		n := p.make(kHead, p.headParm(), nil)
		if n == nil {
			return nil, false
		}
		*tail = n
		tail = &n.right
	}
	return first, true
}

func (p *parser) headParm() *node {
	if p.depth++; p.depth > mostDepth {
		return nil
	}
	defer func() { p.depth-- }()
	if p.peek(0) != 'T' {
		return nil
	}
	p.pos++
	switch p.next() {
	case 'y':
		return p.make(kTypeParm, nil, nil)
	case 'n':
		return p.make(kNonTypeParm, p.typ(), nil)
	case 't':
		h, ok := p.head()
		if !ok || !p.skip('E') {
			return nil
		}
		return p.make(kTemplateTmpParm, h, nil)
	case 'p':
		return p.make(kPackParm, p.headParm(), nil)
	}
	return nil
}

func (p *parser) unnamed() *node {
	p.pos += 2
	i := p.index()
	if i < 0 {
		return nil
	}
	n := p.numbered(kUnnamed, i, nil)
	if !p.substitutable(n) {
		return nil
	}
	return n
}

// special reads the name of what a compiler makes: T and a letter, or G and a
// letter.
func (p *parser) special() *node {
	c1, c2 := p.next(), p.next()
	if c1 == 'T' {
		switch c2 {
		case 'V':
			return p.make(kVtable, p.typ(), nil)
		case 'T':
			return p.make(kVTT, p.typ(), nil)
		case 'I':
			return p.make(kTypeinfo, p.typ(), nil)
		case 'S':
			return p.make(kTypeinfoName, p.typ(), nil)
		case 'F':
			return p.make(kTypeinfoFn, p.typ(), nil)
		case 'J':
			return p.make(kJavaClass, p.typ(), nil)
		case 'h', 'v':
			if !p.callOffset(c2) {
				return nil
			}
			if c2 == 'h' {
				return p.make(kThunk, p.encoding(false), nil)
			}
			return p.make(kVirtualThunk, p.encoding(false), nil)
		case 'c':
			for range 2 { // of this, and of the result
				if !p.callOffset(p.next()) {
					return nil
				}
			}
			return p.make(kCovariantThunk, p.encoding(false), nil)
		case 'C':
			derived := p.typ()
			if p.number() < 0 || !p.skip('_') {
				return nil
			}
			return p.make(kConstructionVtable, p.typ(), derived)
		case 'H':
			return p.make(kTLSInit, p.anyName(), nil)
		case 'W':
			return p.make(kTLSWrapper, p.anyName(), nil)
		case 'A':
			return p.make(kTemplateParmObject, p.templateArg(), nil)
		}
		return nil
	}
	switch c2 {
	case 'V':
		return p.make(kGuard, p.anyName(), nil)
	case 'R':
		n := p.anyName()
		return p.make(kTemporary, n, p.numbered(kNumber, p.number(), nil))
	case 'A':
		return p.make(kHiddenAlias, p.encoding(false), nil)
	case 'r':
		return p.make(kJavaResource, p.javaResource(), nil)
	case 'I':
		if p.gcc < 13 {
			return nil
		}
		module, _ := p.moduleName(nil)
		return p.make(kModuleInit, module, nil)
	case 'T':
		if p.next() == 'n' {
			return p.make(kNontransactionClone, p.encoding(false), nil)
		}
		return p.make(kTransactionClone, p.encoding(false), nil)
	}
	return nil
}

// javaResource reads a number, _ and a file name: $S is /, $_ is . and $$ is $.
func (p *parser) javaResource() *node {
	size := p.number() - 1
	if size < 1 || !p.skip('_') || size > len(p.s)-p.pos {
		return nil
	}
	end := p.pos + size
	var name strings.Builder
	for p.pos < end {
		c := p.next()
		if c == '$' {
			i := strings.IndexByte("S_$", p.next())
			if i < 0 {
				return nil
			}
			c = "/.$"[i]
		}
		name.WriteByte(c)
	}
	return p.name(name.String())
}

func (p *parser) callOffset(c byte) bool {
	switch c {
	case 'h':
		p.number()
	case 'v':
		p.number()
		if !p.skip('_') {
			return false
		}
		p.number()
	default:
		return false
	}
	return p.skip('_')
}

// substitution reads S and what was before by its number, or a letter for a
// name of the standard library.
func (p *parser) substitution(prefix bool) *node {
	if !p.skip('S') {
		return nil
	}
	c := p.next()
	if c == '_' || isDigit(c) || isUpper(c) {
		var id uint32
		if c != '_' {
			for ; c != '_'; c = p.next() {
				was := id
				switch {
				case isDigit(c):
					id = id*36 + uint32(c-'0')
				case isUpper(c):
					id = id*36 + uint32(c-'A') + 10
				default:
					return nil
				}
				if id < was {
					return nil
				}
			}
			id++
		}
		if uint64(id) >= uint64(len(p.subs)) {
			return nil
		}
		return p.subs[id]
	}
	for i := range abbreviations {
		a := &abbreviations[i]
		if a.code != c {
			continue
		}
		if a.last != "" {
			p.last = p.standard(a.last)
		}
		text := a.name
		if next := p.peek(0); prefix && (next == 'C' || next == 'D') {
			text = a.expanded
		}
		n := p.standard(text)
		if p.peek(0) == 'B' {
			if n = p.tags(n); !p.substitutable(n) {
				return nil
			}
		}
		return n
	}
	return nil
}

func (p *parser) standard(text string) *node {
	n := p.node(kStdName)
	if n != nil {
		n.text = text
	}
	return n
}

// unnamedEnum reads Ue, a type and the first enumerator.
func (p *parser) unnamedEnum() *node {
	p.pos += 2
	t := p.typ()
	return p.make(kUnnamedEnum, t, p.sourceName())
}
