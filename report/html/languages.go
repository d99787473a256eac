package html

import (
	"strings"
	"sync"
)

// A language is what a highlighter knows of one.
type language struct {
	suffixes              string // of file names
	lineComments          []string
	firstColumn           string // characters that make a comment of a line when they are its first
	blockOpen, blockClose string
	nested                bool   // block comments within block comments
	quotes                string // what strings and characters begin and end with
	prefixes              string // words that belong to the literal after them
	triple                bool   // """ goes over lines
	rawParens             bool   // R"x(...)x"
	lifetimes             bool   // 'a is no character
	doubled               bool   // "" is a quote in a string, \ is nothing special
	directives            bool   // those of the C preprocessor
	words                 string
	keywords              map[string]bool
}

const (
	wordsC = `alignas alignof asm auto bool break case char const constexpr continue default do double else enum extern
		false float for goto if inline int long nullptr register restrict return short signed sizeof static static_assert struct
		switch thread_local true typedef typeof union unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex
		_Generic _Noreturn _Static_assert _Thread_local __attribute__ __asm__ __inline __inline__ __restrict __typeof__ __volatile__ NULL
		int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t size_t ssize_t ptrdiff_t`
	wordsCpp = ` and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl concept consteval
		constinit const_cast decltype delete dynamic_cast explicit export final friend mutable namespace new noexcept not not_eq operator or
		or_eq override private protected public reinterpret_cast requires static_cast template this throw try typeid typename using
		virtual wchar_t xor xor_eq`
)

// languages by suffix: those that compilers with coverage compile, and those
// whose coverage is merged in.
var languages = sync.OnceValue(func() map[string]*language {
	bySuffix := make(map[string]*language)
	for _, l := range []*language{
		{suffixes: "c h i m", lineComments: []string{"//"}, blockOpen: "/*", blockClose: "*/", quotes: `"'`, prefixes: " L u U u8 ", directives: true, words: wordsC},
		{suffixes: "C H cc cpp cxx c++ hh hpp hxx h++ ipp tpp inl inc ii tcc mm cu cuh l ll lex y yy ypp", lineComments: []string{"//"},
			blockOpen: "/*", blockClose: "*/", quotes: `"'`, prefixes: " L u U u8 R LR uR UR u8R ", rawParens: true, directives: true, words: wordsC + wordsCpp},
		{suffixes: "go", lineComments: []string{"//"}, blockOpen: "/*", blockClose: "*/", quotes: "\"'`",
			words: `break case chan const continue default defer else fallthrough for func go goto if import interface map package range return
				select struct switch type var true false nil iota any bool byte error float32 float64 int int8 int16 int32 int64 rune string uint
				uint8 uint16 uint32 uint64 uintptr`},
		{suffixes: "rs", lineComments: []string{"//"}, blockOpen: "/*", blockClose: "*/", nested: true, quotes: `"'`, prefixes: " b c br ", lifetimes: true,
			words: `as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return
				self Self static struct super trait true type unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64
				u128 usize`},
		{suffixes: "d di", lineComments: []string{"//"}, blockOpen: "/*", blockClose: "*/", quotes: "\"'`",
			words: wordsC + ` abstract alias assert body cast class catch debug delegate delete export final finally foreach function immutable import in
				interface invariant is lazy mixin module new null out override package pragma private protected public pure ref scope shared string super
				synchronized template this throw try ubyte uint ulong unittest ushort version with`},
		{suffixes: "java kt kts scala cs swift js jsx mjs ts tsx vala zig", lineComments: []string{"//"}, blockOpen: "/*", blockClose: "*/", quotes: "\"'`", triple: true,
			words: `abstract as async await boolean break byte case catch char class const continue def default defer delete do double else enum export
				extends extension false final finally float fn for foreach fun func function guard if implements import in init instanceof int interface
				internal is let long match namespace new nil null object of open operator out override package private protected protocol public readonly
				ref return sealed self short static string struct super switch this throw throws trait true try type typeof undefined using val var
				virtual void volatile when where while with yield`},
		{suffixes: "py pyx pyi", lineComments: []string{"#"}, quotes: `"'`, prefixes: " r b f u rb br fr R B F ", triple: true,
			words: `and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match
				nonlocal not or pass raise return try while with yield True False None self`},
		{suffixes: "sh bash pl pm rb", lineComments: []string{"#"}, quotes: `"'`,
			words: `begin case class def do done elif else elsif end esac fi for foreach function if in local module my next nil return self sub then
				unless until use while yield`},
		{suffixes: "f90 f95 f03 f08 f18", lineComments: []string{"!"}, quotes: `"'`, doubled: true, directives: true, words: wordsFortran + " " + strings.ToUpper(wordsFortran)},
		{suffixes: "f for ftn f77", lineComments: []string{"!"}, firstColumn: "cC*", quotes: `"'`, doubled: true, directives: true, words: wordsFortran + " " + strings.ToUpper(wordsFortran)},
		{suffixes: "adb ads ada", lineComments: []string{"--"}, quotes: `"`, doubled: true,
			words: `abort abs abstract accept access aliased all and array at begin body case constant declare delay delta digits do else elsif end
				entry exception exit for function generic goto if in interface is limited loop mod new not null of or others out overriding package
				pragma private procedure protected raise range record rem renames return reverse select separate some subtype synchronized tagged task
				terminate then type until use when while with xor`},
		{suffixes: "s asm", lineComments: []string{"//", "#", ";"}, blockOpen: "/*", blockClose: "*/", quotes: `"`},
	} {
		l.keywords = make(map[string]bool)
		for _, w := range strings.Fields(l.words) {
			l.keywords[w] = true
		}
		for _, s := range strings.Fields(l.suffixes) {
			bySuffix[s] = l
		}
	}
	return bySuffix
})

const wordsFortran = `allocatable allocate associate call case character class close common complex contains continue cycle data deallocate do
	double else elseif end enddo endif exit format function goto if implicit in inout integer intent interface intrinsic kind logical module none
	only open out parameter pointer precision print private procedure program public pure read real recursive result return save select
	stop subroutine target then type use where while write`
