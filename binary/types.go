package binary

import (
	"debug/dwarf"
	"errors"
	"fmt"
)

// A type is read by debug/dwarf with all types that it refers to, each within the one
// before, and one that is a name of itself has a size that is looked for without end. So
// they are looked through first, without recursion.

const (
	mostTypeDepth = 50000 // of types that refer to others; those of a kernel have some thousands
	mostTypeNames = 100   // of one type: typedef, const, array of
	// mostTypeUnits is how large .debug_types may be, in which types are not looked through.
	mostTypeUnits = 1 << 21
)

var errDeepTypes = errors.New("its debug information has types within types without end")

// typeAt returns the type at an offset.
func (l *Lines) typeAt(at dwarf.Offset) (dwarf.Type, error) {
	if l.typeError == nil {
		l.typeError = l.checkType(at)
	}
	if l.typeError != nil {
		return nil, l.typeError
	}
	return l.data.Type(at)
}

// checkType looks through the types to which the one at an offset leads.
func (l *Lines) checkType(at dwarf.Offset) error {
	// To each type those to which it refers, until all of them are looked through.
	waiting := [][]dwarf.Offset{{at}}
	for len(waiting) > 0 {
		last := &waiting[len(waiting)-1]
		if len(*last) == 0 {
			waiting = waiting[:len(waiting)-1]
			continue
		}
		at := (*last)[0]
		*last = (*last)[1:]
		if l.types[at] {
			continue
		}
		l.types[at] = true
		next, err := l.typesOf(at)
		if err != nil {
			return err
		}
		if len(waiting) == mostTypeDepth {
			return errDeepTypes
		}
		waiting = append(waiting, next)
	}
	return nil
}

// typesOf returns the types to which the one at an offset refers.
func (l *Lines) typesOf(at dwarf.Offset) (types []dwarf.Offset, err error) {
	r := l.data.Reader()
	r.Seek(at)
	e, err := l.next(r)
	if err != nil || e == nil {
		return nil, err
	}
	add := func(e *dwarf.Entry) error {
		switch at := e.Val(dwarf.AttrType).(type) {
		case dwarf.Offset:
			types = append(types, at)
		case uint64:
			if l.typeUnits > mostTypeUnits {
				return fmt.Errorf("its types are in .debug_types, of which at most %d bytes are read, and it has %d", mostTypeUnits, l.typeUnits)
			}
		}
		return nil
	}
	if err := errors.Join(add(e), l.checkNames(e)); err != nil || !e.Children {
		return types, err
	}
	for {
		child, err := l.next(r)
		if err != nil || child == nil || child.Tag == 0 {
			return types, err
		}
		switch child.Tag {
		case dwarf.TagMember, dwarf.TagFormalParameter:
			if err := add(child); err != nil {
				return types, err
			}
		}
		l.skip(r, child)
	}
}

// checkNames returns an error for an entry that is one of too many names of a type, as
// one is that leads to itself.
func (l *Lines) checkNames(e *dwarf.Entry) error {
	for range mostTypeNames {
		switch e.Tag {
		case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagArrayType:
		default:
			return nil
		}
		at, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return nil
		}
		r := l.data.Reader()
		r.Seek(at)
		next, err := l.next(r)
		if err != nil || next == nil {
			return err
		}
		e = next
	}
	return errDeepTypes
}

// called is what messages call a type.
func called(t dwarf.Type) string {
	if s, ok := t.(*dwarf.StructType); ok && s.StructName != "" {
		return s.Kind + " " + s.StructName
	}
	if name := t.Common().Name; name != "" {
		return name
	}
	return "type without a name" // what it consists of may go on without end
}
