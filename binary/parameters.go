package binary

import (
	"debug/dwarf"
	"fmt"
	"sort"
	"strings"
)

// A Parameter of a function, and where the caller puts it: on x86-64 by the System V
// calling convention, section 3.2.3 of its document, on arm64 as aapcs64.go has it.
type Parameter struct {
	Name string
	Kind ParameterKind
	Bits int // of Integer, Unsigned, Enum and FloatingPoint
	// Index counts from 0: the registers for floating point of those, else the
	// registers for integers, up to 5 (arm64: 7), and then words on the stack.
	Index int
	// Values are the names of an Enum's.
	Values map[int64]string
}

// ParameterKind is how a parameter is to be understood.
type ParameterKind uint8

// Kinds. Structures that are passed by value and the like are left out.
const (
	Integer ParameterKind = iota + 1
	Unsigned
	Character
	Boolean
	Enum
	FloatingPoint
	Pointer
	Text // a pointer to characters
)

// Parameters returns the parameters of the function that begins at addr, as the
// debug information declares them. Those after one whose place is not known are
// left out, and the error says why.
func (l *Lines) Parameters(addr uint64) ([]Parameter, error) {
	i := sort.Search(len(l.ranges), func(i int) bool { return l.ranges[i].low > addr })
	if i == 0 || addr >= l.ranges[i-1].high {
		return nil, ErrNoLines
	}
	u := l.ranges[i-1].unit
	l.load(u)
	scope := innermost(u.scopes, addr)
	if scope == nil {
		return nil, ErrNoLines
	}
	declared, children, err := l.declaration(scope.at)
	if err != nil {
		return nil, err
	}
	language, _ := u.entry.Val(dwarf.AttrLanguage).(int64)
	p := &passing{lines: l, c: isC[language]}
	if err := p.result(declared); err != nil {
		return nil, err
	}
	var parameters []Parameter
	for _, e := range children {
		if e.Tag == dwarf.TagUnspecifiedParameters {
			break
		}
		if e.Tag != dwarf.TagFormalParameter {
			continue
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if name == "" {
			name = fmt.Sprintf("arg%d", len(parameters)+1)
		}
		parameter, shown, err := p.place(e)
		if err != nil {
			return parameters, fmt.Errorf("parameter %s: %w", name, err)
		}
		if shown {
			parameter.Name = name
			parameters = append(parameters, parameter)
		}
	}
	return parameters, nil
}

// isC has the languages in which structures are passed by their size alone:
// DW_LANG_C89, C, C99, C11, C17.
var isC = map[int64]bool{0x01: true, 0x02: true, 0x0c: true, 0x1d: true, 0x2c: true}

// declaration follows a function's entry to the one that has its parameters as
// the source has them, and returns that with its children.
func (l *Lines) declaration(at dwarf.Offset) (*dwarf.Entry, []*dwarf.Entry, error) {
	var e *dwarf.Entry
	var children []*dwarf.Entry
	var result any
	for range 8 {
		r := l.data.Reader()
		r.Seek(at)
		next, err := l.next(r)
		if err != nil || next == nil {
			return nil, nil, fmt.Errorf("debug information at %#x: no entry", at)
		}
		own := l.parametersOf(r, next)
		if e == nil || len(own) > 0 {
			children = own
		}
		e = next
		if t := e.Val(dwarf.AttrType); t != nil {
			result = t
		}
		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			// The declaration within a class has fewer names, and the same result.
			if at, ok := e.Val(dwarf.AttrSpecification).(dwarf.Offset); ok && result == nil {
				r.Seek(at)
				if inClass, err := l.next(r); err == nil && inClass != nil {
					result = inClass.Val(dwarf.AttrType)
				}
			}
			break
		}
		at = origin
	}
	declared := *e
	declared.Field = []dwarf.Field{{Attr: dwarf.AttrType, Val: result}}
	return &declared, children, nil
}

// parametersOf reads the parameters among the children of an entry.
func (l *Lines) parametersOf(r *dwarf.Reader, e *dwarf.Entry) (all []*dwarf.Entry) {
	if !e.Children {
		return nil
	}
	for {
		child, err := l.next(r)
		if err != nil || child == nil || child.Tag == 0 {
			return all
		}
		if child.Tag == dwarf.TagFormalParameter || child.Tag == dwarf.TagUnspecifiedParameters {
			all = append(all, child)
		}
		l.skip(r, child)
	}
}

// passing hands out registers.
type passing struct {
	lines    *Lines
	c        bool
	integers int // used registers
	floats   int
	stack    int // used words
}

const (
	integerRegisters = 6
	floatRegisters   = 8
)

// result takes the register for the address of the result, if it has one.
func (p *passing) result(function *dwarf.Entry) error {
	if function.Val(dwarf.AttrType) == nil || p.lines.arm64 { // which has one more for it
		return nil
	}
	t, err := p.typeOf(function)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	how, err := p.classify(t, function)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	if how.reference || how.memory && how.size > 0 && !how.x87 {
		p.integers++
	}
	return nil
}

// typeOf returns the type of an entry, without qualifiers and typedefs.
func (p *passing) typeOf(e *dwarf.Entry) (dwarf.Type, error) {
	for depth := 0; depth < 8; depth++ {
		if at, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
			return p.lines.typeAt(at)
		}
		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			break
		}
		r := p.lines.data.Reader()
		r.Seek(origin)
		next, err := p.lines.next(r)
		if err != nil || next == nil {
			break
		}
		e = next
	}
	return nil, fmt.Errorf("it has no type in the debug information")
}

func bare(t dwarf.Type) dwarf.Type {
	for range 100 {
		switch inner := t.(type) {
		case *dwarf.TypedefType:
			t = inner.Type
		case *dwarf.QualType:
			t = inner.Type
		default:
			return t
		}
	}
	return t
}

// A class is how something is passed.
type class struct {
	integers, floats int
	memory           bool // on the stack
	x87              bool // as a result in its register
	reference        bool // by its address
	aligned          bool // to two words; of arm64
	size             int64
}

// unknownPassing is for what this does not know.
func unknownPassing(t dwarf.Type) error {
	return fmt.Errorf("it is not known how a %s is passed", called(t))
}

// classify tells how what the entry declares is passed, which has the type.
func (p *passing) classify(t dwarf.Type, e *dwarf.Entry) (class, error) {
	switch t := bare(t).(type) {
	case *dwarf.VoidType:
		return class{}, nil
	case *dwarf.PtrType, *dwarf.EnumType:
		return class{integers: 1}, nil
	case *dwarf.UnsupportedType:
		switch t.Tag {
		case dwarf.TagReferenceType, dwarf.TagRvalueReferenceType:
			return class{integers: 1}, nil
		}
		return class{}, unknownPassing(t)
	case *dwarf.FloatType:
		switch {
		case t.ByteSize <= 8:
			return class{floats: 1}, nil
		case p.lines.arm64 && t.ByteSize == 16:
			return class{floats: 1, aligned: true, size: 16}, nil
		case t.Name == "long double":
			return class{memory: true, x87: true, size: 16}, nil
		}
		return class{}, unknownPassing(t)
	case *dwarf.IntType, *dwarf.UintType, *dwarf.CharType, *dwarf.UcharType, *dwarf.BoolType:
		return class{integers: int(t.Size()+7) / 8, aligned: t.Size() > 8}, nil
	case *dwarf.UnspecifiedType: // std::nullptr_t
		return class{integers: 1}, nil
	case *dwarf.ComplexType:
		if p.lines.arm64 {
			return class{floats: 2, aligned: t.ByteSize > 16, size: t.ByteSize}, nil
		}
		return class{}, unknownPassing(t)
	case *dwarf.StructType:
		return p.structure(t, e)
	default:
		return class{}, unknownPassing(t)
	}
}

// Values of DW_AT_calling_convention.
const (
	passByReference = 4 // DW_CC_pass_by_reference
	passByValue     = 5 // DW_CC_pass_by_value
)

// structure knows structures of C, and those of C++ without bases.
func (p *passing) structure(t *dwarf.StructType, e *dwarf.Entry) (class, error) {
	if t.Incomplete { // clang leaves out what other objects describe
		return class{}, unknownPassing(t)
	}
	if !p.c {
		convention, derived := p.convention(e)
		switch {
		case convention == passByReference:
			return class{integers: 1, reference: true}, nil
		case convention != passByValue || derived:
			return class{}, unknownPassing(t)
		}
	}
	if p.lines.arm64 {
		return structureARM64(t)
	}
	if t.ByteSize > 16 {
		return class{memory: true, size: t.ByteSize}, nil
	}
	var words [2]struct{ integer, float bool }
	steps := 0
	if err := fill(&words, t, 0, &steps, 0); err != nil {
		return class{}, err
	}
	var c class
	for _, w := range words {
		switch {
		case w.integer:
			c.integers++
		case w.float:
			c.floats++
		}
	}
	c.size = t.ByteSize
	return c, nil
}

// convention finds out how the structure that the entry has as its type is
// passed, and whether it has members of others that are not listed.
func (p *passing) convention(e *dwarf.Entry) (convention int64, derived bool) {
	for range 100 {
		at, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			if at, ok = e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); !ok {
				break
			}
		}
		if e = p.entry(at); e == nil {
			return 0, false
		}
	}
	convention, said := e.Val(dwarf.AttrCalling).(int64)
	byReference, derived := p.members(e, 0)
	switch {
	case said:
		return convention, derived
	case byReference:
		return passByReference, derived
	}
	return passByValue, derived
}

// entry returns the one at an offset, nil if there is none.
func (p *passing) entry(at dwarf.Offset) *dwarf.Entry {
	r := p.lines.data.Reader()
	r.Seek(at)
	e, err := p.lines.next(r)
	if err != nil {
		return nil
	}
	return e
}

// members looks whether a structure has, or one of its members has, a copy or
// move constructor or destructor of its own, or virtual functions, and whether
// it has bases. GCC does not say how structures are passed; that follows from it.
func (p *passing) members(e *dwarf.Entry, depth int) (own, derived bool) {
	if depth > 16 || !e.Children {
		return false, false
	}
	name, _ := e.Val(dwarf.AttrName).(string)
	name, _, _ = strings.Cut(name, "<")
	r := p.lines.data.Reader()
	r.Seek(e.Offset)
	if _, err := p.lines.next(r); err != nil {
		return false, false
	}
	for {
		child, err := p.lines.next(r)
		if err != nil || child == nil || child.Tag == 0 {
			return own, derived
		}
		switch called, _ := child.Val(dwarf.AttrName).(string); child.Tag {
		case dwarf.TagSubprogram:
			implicit := child.Val(dwarf.AttrArtificial) == true || child.Val(dwarf.AttrDefaulted) != nil
			special := strings.HasPrefix(called, "~")
			if called == name && !implicit {
				special = p.copies(p.lines.parametersOf(r, child), e.Offset)
			} else {
				p.lines.skip(r, child)
			}
			own = own || special && !implicit || child.Val(dwarf.AttrVirtuality) != nil
			continue
		case dwarf.TagInheritance:
			derived = true
			fallthrough
		case dwarf.TagMember:
			if at, ok := child.Val(dwarf.AttrType).(dwarf.Offset); ok {
				if t := p.entry(at); t != nil && (t.Tag == dwarf.TagStructType || t.Tag == dwarf.TagClassType) {
					inner, _ := p.members(t, depth+1)
					own = own || inner
				}
			}
		}
		p.lines.skip(r, child)
	}
}

// copies tells whether a constructor's only parameter is a reference to the class.
func (p *passing) copies(parameters []*dwarf.Entry, class dwarf.Offset) bool {
	if len(parameters) != 2 { // the first is this
		return false
	}
	e := parameters[1]
	for range 8 {
		at, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return false
		}
		if at == class {
			return e.Tag != dwarf.TagFormalParameter
		}
		if e = p.entry(at); e == nil {
			return false
		}
	}
	return false
}

// fill notes which words of 8 bytes a member at an offset occupies.
func fill(words *[2]struct{ integer, float bool }, t dwarf.Type, at int64, steps *int, depth int) error {
	if *steps++; depth > 16 || *steps > 1000 {
		return unknownPassing(t)
	}
	switch t := bare(t).(type) {
	case *dwarf.StructType:
		for _, f := range t.Field {
			if err := fill(words, f.Type, at+f.ByteOffset, steps, depth+1); err != nil {
				return err
			}
		}
	case *dwarf.ArrayType:
		size := t.Type.Size()
		for i := int64(0); i < t.Count && i < 16 && size > 0; i++ {
			if err := fill(words, t.Type, at+i*size, steps, depth+1); err != nil {
				return err
			}
		}
	case *dwarf.FloatType:
		if t.ByteSize <= 0 || t.ByteSize > 8 || at < 0 || at+t.ByteSize > 16 || at%t.ByteSize != 0 {
			return unknownPassing(t)
		}
		words[at/8].float = true
	default:
		size := t.Size()
		if size <= 0 || size > 8 || at < 0 || at+size > 16 || at%size != 0 {
			return unknownPassing(t)
		}
		words[at/8].integer = true
	}
	return nil
}

// place finds where a parameter is; shown tells whether it is a simple value.
func (p *passing) place(e *dwarf.Entry) (parameter Parameter, shown bool, err error) {
	t, err := p.typeOf(e)
	if err != nil {
		return parameter, false, err
	}
	how, err := p.classify(t, e)
	if err != nil {
		return parameter, false, err
	}
	parameter = describe(t)
	shown = parameter.Kind != 0
	if p.lines.arm64 {
		place, stacked := p.allocate(how)
		parameter.Index = place
		return parameter, shown && (!stacked || how.integers == 1), nil
	}
	fits := !how.memory && p.integers+how.integers <= integerRegisters && p.floats+how.floats <= floatRegisters
	switch {
	case !fits:
		if how.x87 {
			p.stack += p.stack & 1 // it is aligned to 16 bytes
		}
		parameter.Index = integerRegisters + p.stack
		p.stack += max(int(how.size+7)/8, how.integers+how.floats)
		return parameter, shown && how.integers == 1, nil
	case how.floats > 0:
		parameter.Index = p.floats
	default:
		parameter.Index = p.integers
	}
	p.integers += how.integers
	p.floats += how.floats
	return parameter, shown, nil
}

// describe says how a value is to be read; without a kind it is none.
func describe(t dwarf.Type) Parameter {
	bits := 8 * int(t.Size())
	switch t := bare(t).(type) {
	case *dwarf.PtrType:
		if isCharacter(bare(t.Type)) {
			return Parameter{Kind: Text}
		}
		return Parameter{Kind: Pointer}
	case *dwarf.UnsupportedType, *dwarf.UnspecifiedType:
		return Parameter{Kind: Pointer}
	case *dwarf.EnumType:
		values := make(map[int64]string)
		for _, v := range t.Val {
			values[v.Val] = v.Name
		}
		return Parameter{Kind: Enum, Bits: bits, Values: values}
	case *dwarf.BoolType:
		return Parameter{Kind: Boolean}
	case *dwarf.FloatType:
		if bits == 32 || bits == 64 {
			return Parameter{Kind: FloatingPoint, Bits: bits}
		}
	case *dwarf.CharType, *dwarf.UcharType:
		if isCharacter(t) {
			return Parameter{Kind: Character}
		}
		if _, signed := t.(*dwarf.CharType); signed {
			return Parameter{Kind: Integer, Bits: 8}
		}
		return Parameter{Kind: Unsigned, Bits: 8}
	case *dwarf.IntType:
		if bits <= 64 {
			return Parameter{Kind: Integer, Bits: bits}
		}
	case *dwarf.UintType:
		if bits <= 64 {
			return Parameter{Kind: Unsigned, Bits: bits}
		}
	}
	return Parameter{}
}

func isCharacter(t dwarf.Type) bool {
	return t != nil && t.Size() == 1 && t.Common().Name == "char"
}
