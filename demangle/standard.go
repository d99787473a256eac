package demangle

import (
	"slices"
	"strings"
)

// This file makes names of the standard library of C++ what people write in sources:
// std::string for std::__cxx11::basic_string<char, std::char_traits<char>,
// std::allocator<char> >. What tells instances apart stays.

// Standard returns a name of C++ as it is written in sources: without arguments of templates of the
// standard library that are their defaults, and without the namespaces in it that only tell versions of it
// apart. What is no name of C++ is returned as it is.
func Standard(name string) string {
	if !strings.Contains(name, "std::") && !strings.Contains(name, abiTag) {
		return name
	}
	s := standard{rest: versions.Replace(name)}
	short, ok := s.until("")
	if !ok {
		return name
	}
	return short
}

// abiTag is what GCC puts behind the names of functions that return a std::string.
const abiTag = "[abi:cxx11]"

// versions are the namespaces that libstdc++ and libc++ have for versions of themselves.
var versions = strings.NewReplacer("::__cxx11::", "::", "::__1::", "::", "::__ndk1::", "::", abiTag, "")

// defaults are the default arguments of templates of the namespace std, after those that have none: $1 and $2
// stand for these.
var defaults = map[string][]string{
	"vector": {"$1", "std::allocator<$1>"}, "deque": {"$1", "std::allocator<$1>"},
	"list": {"$1", "std::allocator<$1>"}, "forward_list": {"$1", "std::allocator<$1>"},
	"set": {"$1", "std::less<$1>", "std::allocator<$1>"}, "multiset": {"$1", "std::less<$1>", "std::allocator<$1>"},
	"map":                {"$1", "$2", "std::less<$1>", "std::allocator<std::pair<$1 const, $2>>"},
	"multimap":           {"$1", "$2", "std::less<$1>", "std::allocator<std::pair<$1 const, $2>>"},
	"unordered_set":      {"$1", "std::hash<$1>", "std::equal_to<$1>", "std::allocator<$1>"},
	"unordered_multiset": {"$1", "std::hash<$1>", "std::equal_to<$1>", "std::allocator<$1>"},
	"unordered_map":      {"$1", "$2", "std::hash<$1>", "std::equal_to<$1>", "std::allocator<std::pair<$1 const, $2>>"},
	"unordered_multimap": {"$1", "$2", "std::hash<$1>", "std::equal_to<$1>", "std::allocator<std::pair<$1 const, $2>>"},
	"unique_ptr":         {"$1", "std::default_delete<$1>"},
	"queue":              {"$1", "std::deque<$1>"}, "stack": {"$1", "std::deque<$1>"},
	"priority_queue": {"$1", "std::vector<$1>", "std::less<$1>"},

	"basic_string": ofStrings, "basic_string_view": ofStreams,
	"basic_ios": ofStreams, "basic_istream": ofStreams, "basic_ostream": ofStreams, "basic_iostream": ofStreams, "basic_streambuf": ofStreams,
	"basic_ifstream": ofStreams, "basic_ofstream": ofStreams, "basic_fstream": ofStreams, "basic_filebuf": ofStreams,
	"basic_istringstream": ofStrings, "basic_ostringstream": ofStrings, "basic_stringstream": ofStrings, "basic_stringbuf": ofStrings,
	"istreambuf_iterator": ofStreams, "ostreambuf_iterator": ofStreams,
}

var (
	ofStreams = []string{"$1", "std::char_traits<$1>"}
	ofStrings = []string{"$1", "std::char_traits<$1>", "std::allocator<$1>"}
)

// ofCharacters are what names begin with that stand for basic_ ones of a kind of characters.
var ofCharacters = map[string]string{"char": "", "wchar_t": "w", "char8_t": "u8", "char16_t": "u16", "char32_t": "u32"}

// deepest is how deep arguments of templates may lie in others.
const deepest = 100

// A standard shortens a name from its beginning to its end.
type standard struct {
	rest  string
	depth int
}

// until returns the name up to one of the characters, which is read too; ok is false if there is none.
// For "" that is its end.
func (s *standard) until(ends string) (short string, ok bool) {
	if s.depth++; s.depth > deepest {
		return "", false
	}
	defer func() { s.depth-- }()
	var b []byte
	for s.rest != "" {
		c := s.rest[0]
		switch {
		case strings.HasPrefix(s.rest, "operator") && (len(b) == 0 || !isIdentifier(b[len(b)-1])):
			b = append(b, s.operator()...)
			continue
		case strings.IndexByte(ends, c) >= 0 && (c != '>' || len(b) == 0 || b[len(b)-1] != '-'):
			return string(b), true
		}
		s.rest = s.rest[1:]
		switch c {
		case '(', '{', '[':
			inside, ok := s.until(map[byte]string{'(': ")", '{': "}", '[': "]"}[c])
			if !ok {
				return "", false
			}
			b = append(append(append(b, c), inside...), s.rest[0])
			s.rest = s.rest[1:]
		case '<':
			arguments, ok := s.arguments()
			if !ok {
				return "", false
			}
			b = instance(b, arguments)
		default:
			b = append(b, c)
		}
	}
	return string(b), ends == ""
}

// withBrackets are the operators that are written with < and > or brackets, the longest first.
var withBrackets = []string{"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", "<", ">"}

// operator reads the name of an operator, in which < and > and brackets are nothing else.
func (s *standard) operator() string {
	n := len("operator")
	for _, sign := range withBrackets {
		if strings.HasPrefix(s.rest[n:], sign) {
			n += len(sign)
			break
		}
	}
	name := s.rest[:n]
	s.rest = s.rest[n:]
	return name
}

// arguments reads the arguments of a template, behind the <.
func (s *standard) arguments() (list []string, ok bool) {
	for {
		argument, ok := s.until(",>")
		if !ok {
			return nil, false
		}
		end := s.rest[0]
		s.rest = s.rest[1:]
		list = append(list, strings.TrimSpace(argument))
		if end == '>' {
			return list, true
		}
	}
}

// instance appends the arguments of a template to its name, which b ends with.
func instance(b []byte, arguments []string) []byte {
	from := len(b)
	for from > 0 && (isIdentifier(b[from-1]) || b[from-1] == ':') {
		from--
	}
	name, isStandard := strings.CutPrefix(string(b[from:]), "std::")
	if isStandard {
		all := defaults[name]
		for i := len(arguments) - 1; i > 0 && i < len(all) && is(arguments[i], all[i], arguments); i-- {
			arguments = arguments[:i]
		}
		if basic, is := strings.CutPrefix(name, "basic_"); is && all != nil && len(arguments) == 1 {
			if prefix, known := ofCharacters[arguments[0]]; known {
				return append(append(append(b[:from], "std::"...), prefix...), basic...)
			}
		}
	}
	b = append(append(b, '<'), strings.Join(arguments, ", ")...)
	return append(b, '>')
}

// is tells whether an argument is the default, where those before it are given.
func is(argument, standard string, arguments []string) bool {
	if strings.HasPrefix(standard, "$") {
		return false // there is none
	}
	standard = strings.ReplaceAll(standard, "$1", arguments[0])
	standard = strings.ReplaceAll(standard, "$2", arguments[1])
	return closed.Replace(argument) == closed.Replace(standard)
}

// closed writes names as of C++11 on: ">>".
var closed = strings.NewReplacer(" >", ">")

// standardNames are those of names that differ from them.
func standardNames(names []string) (more []string) {
	for _, name := range names {
		if short := Standard(name); !slices.Contains(names, short) && !slices.Contains(more, short) {
			more = append(more, short)
		}
	}
	return more
}
