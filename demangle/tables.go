package demangle

// A kind says what a node is; the comments give what left and right are.
type kind uint8

const (
	kName          kind = iota // text
	kStdName                   // text: an abbreviation, "std::string"
	kBuiltin                   // num: index into builtins
	kExtended                  // text, num: printing of literals; a builtin type beyond the table
	kOperator                  // num: index into operators
	kVendorOp                  // name; num: number of operands
	kNumber                    // num
	kTemplateParm              // num
	kFunctionParm              // num, 0 is this
	kUnnamed                   // num
	kUnnamedEnum               // type, first enumerator
	kLambda                    // parameters, template head; num
	kDefaultArg                // what is in it; num
	kTaggedName                // name, tag
	kBinding                   // name, next binding
	kModule                    // parent module or nil, name
	kPartition                 // parent module or nil, name
	kModuleEntity              // name, module
	kFriend                    // name
	kQualified                 // scope, name
	kLocal                     // function, name
	kTyped                     // name, function type
	kTemplate                  // name, arguments
	kConstraint                // what is constrained, expression
	kClone                     // function, suffix
	kConstructor               // name
	kDestructor                // name
	kConversion                // type
	kCast                      // type
	kList                      // element or nil, rest
	kArgs                      // the same for template arguments
	kDecltype                  // expression
	kPackExpansion             // pattern
	kVendorType                // name
	kFixed                     // type; num: accumulates (1), saturates (2)
	kFunction                  // result or nil, parameters
	kArray                     // size or nil, element
	kVector                    // size, element
	kMemberPointer             // class, member

	// Modifiers: left is what they modify.
	kPointer
	kReference
	kRvalueReference
	kComplex
	kImaginary
	kVendorQualifier // right: qualifier
	kRestrict
	kVolatile
	kConst
	// Those of functions; the first three in the order of the above.
	kRestrictThis
	kVolatileThis
	kConstThis
	kReferenceThis
	kRvalueReferenceThis
	kExplicitThis
	kTransactionSafe
	kNoexcept // right: expression or nil
	kThrows   // right: types

	kNullary    // operator
	kUnary      // operator, operand
	kBinary     // operator, operands
	kTrinary    // operator, operands
	kOperands   // first, second or further operands
	kSuffix     // operand of a suffix operator
	kInitList   // type or nil, list
	kVendorExpr // name, arguments
	kLiteral    // type, name
	kNegative   // type, name
	kSubobject  // type, expression; num

	// Template heads of lambdas.
	kHead            // parameter, rest
	kTypeParm        //
	kNonTypeParm     // type
	kTemplateTmpParm // head
	kPackParm        // parameter

	// Special names: a prefix and left.
	kVtable
	kVTT
	kConstructionVtable // base, derived
	kTypeinfo
	kTypeinfoName
	kTypeinfoFn
	kJavaClass
	kJavaResource
	kThunk
	kVirtualThunk
	kCovariantThunk
	kGuard
	kTLSInit
	kTLSWrapper
	kTemporary // variable, number
	kHiddenAlias
	kTransactionClone
	kNontransactionClone
	kModuleInit
	kTemplateParmObject
	kConstructors
	kDestructors

	kinds
)

const (
	needsLeft = 1 << iota
	needsRight
	isQualifier // const, volatile or restrict, of anything but functions
	ofFunction  // a qualifier of a member function, or what it throws
	isSimple    // an operand that needs no parentheses
	isLeaf      // has no packs below it
	needsBoth   = needsLeft | needsRight
)

// kindInfo says which parts a node must have, and what it prints: before its
// left part or, a modifier, behind it.
var kindInfo = [kinds]struct {
	flags uint8
	text  string
}{
	kName:         {isSimple | isLeaf, ""},
	kStdName:      {isLeaf, ""},
	kBuiltin:      {isLeaf, ""},
	kExtended:     {isLeaf, ""},
	kOperator:     {isLeaf, ""},
	kVendorOp:     {needsLeft, ""},
	kNumber:       {isLeaf, ""},
	kFunctionParm: {isSimple | isLeaf, ""},
	kUnnamed:      {isLeaf, ""},
	kUnnamedEnum:  {needsBoth | isLeaf, ""},
	kLambda:       {isLeaf, ""},
	kDefaultArg:   {needsLeft | isLeaf, ""},
	kTaggedName:   {needsBoth | isLeaf, ""},
	kBinding:      {needsLeft, ""},
	kModule:       {needsRight, ""},
	kPartition:    {needsRight, ""},
	kModuleEntity: {needsBoth, ""},
	kFriend:       {needsLeft, ""},
	kQualified:    {needsBoth | isSimple, ""},
	kLocal:        {needsBoth, ""},
	kTyped:        {needsBoth, ""},
	kTemplate:     {needsBoth, ""},
	kConstraint:   {needsBoth, ""},
	kClone:        {needsBoth, ""},
	kConstructor:  {needsLeft, ""},
	kDestructor:   {needsLeft, ""},
	kConversion:   {needsLeft, ""},
	kCast:         {needsLeft, ""},

	kDecltype:      {needsLeft, ""},
	kPackExpansion: {needsLeft, ""},
	kVendorType:    {needsLeft, ""},
	kFixed:         {needsLeft, ""},
	kArray:         {needsRight, ""},
	kVector:        {needsBoth, ""},
	kMemberPointer: {needsBoth, ""},

	kPointer:             {needsLeft, "*"},
	kReference:           {needsLeft, "&"},
	kRvalueReference:     {needsLeft, "&&"},
	kComplex:             {needsLeft, " _Complex"},
	kImaginary:           {needsLeft, " _Imaginary"},
	kVendorQualifier:     {needsBoth, " "},
	kRestrict:            {isQualifier, " restrict"},
	kVolatile:            {isQualifier, " volatile"},
	kConst:               {isQualifier, " const"},
	kRestrictThis:        {ofFunction, " restrict"},
	kVolatileThis:        {ofFunction, " volatile"},
	kConstThis:           {ofFunction, " const"},
	kReferenceThis:       {ofFunction, " &"},
	kRvalueReferenceThis: {ofFunction, " &&"},
	kExplicitThis:        {ofFunction, ""},
	kTransactionSafe:     {ofFunction, " transaction_safe"},
	kNoexcept:            {ofFunction, " noexcept"},
	kThrows:              {ofFunction, " throw"},

	kNullary:    {needsLeft, ""},
	kOperands:   {needsBoth, ""},
	kUnary:      {needsBoth, ""},
	kBinary:     {needsBoth, ""},
	kTrinary:    {needsBoth, ""},
	kSuffix:     {needsLeft, ""},
	kInitList:   {needsRight | isSimple, ""},
	kVendorExpr: {needsBoth, ""},
	kLiteral:    {needsBoth, ""},
	kNegative:   {needsBoth, ""},
	kSubobject:  {needsBoth, ""},

	kHead:            {needsLeft, ""},
	kNonTypeParm:     {needsLeft, ""},
	kTemplateTmpParm: {needsLeft, ""},
	kPackParm:        {needsLeft, ""},

	kVtable:              {needsLeft, "vtable for "},
	kVTT:                 {needsLeft, "VTT for "},
	kConstructionVtable:  {needsBoth, "construction vtable for "},
	kTypeinfo:            {needsLeft, "typeinfo for "},
	kTypeinfoName:        {needsLeft, "typeinfo name for "},
	kTypeinfoFn:          {needsLeft, "typeinfo fn for "},
	kJavaClass:           {needsLeft, "java Class for "},
	kJavaResource:        {needsLeft, "java resource "},
	kThunk:               {needsLeft, "non-virtual thunk to "},
	kVirtualThunk:        {needsLeft, "virtual thunk to "},
	kCovariantThunk:      {needsLeft, "covariant return thunk to "},
	kGuard:               {needsLeft, "guard variable for "},
	kTLSInit:             {needsLeft, "TLS init function for "},
	kTLSWrapper:          {needsLeft, "TLS wrapper function for "},
	kTemporary:           {needsBoth, "reference temporary #"},
	kHiddenAlias:         {needsLeft, "hidden alias for "},
	kTransactionClone:    {needsLeft, "transaction clone for "},
	kNontransactionClone: {needsLeft, "non-transaction clone for "},
	kModuleInit:          {needsLeft, "initializer for module "},
	kTemplateParmObject:  {needsLeft, "template parameter object for "},
	kConstructors:        {needsLeft, "global constructors keyed to "},
	kDestructors:         {needsLeft, "global destructors keyed to "},
}

// How a literal of a type is printed.
type literalStyle uint8

const (
	literalCast  literalStyle = iota // (char)97
	literalPlain                     // 1
	literalU
	literalL
	literalUL
	literalLL
	literalULL
	literalBool
	literalFloat // (float)[3f800000]
)

var literalSuffix = [...]string{literalU: "u", literalL: "l", literalUL: "ul", literalLL: "ll", literalULL: "ull"}

type builtin struct {
	name    string
	literal literalStyle
}

// builtins are the types of one letter, from a to z; those of D and a letter
// follow.
var builtins = [...]builtin{
	{"signed char", literalCast}, {"bool", literalBool}, {"char", literalCast}, {"double", literalFloat},
	{"long double", literalFloat}, {"float", literalFloat}, {"__float128", literalFloat}, {"unsigned char", literalCast},
	{"int", literalPlain}, {"unsigned int", literalU}, {}, {"long", literalL}, {"unsigned long", literalUL},
	{"__int128", literalCast}, {"unsigned __int128", literalCast}, {}, {}, {}, {"short", literalCast},
	{"unsigned short", literalCast}, {}, {"void", literalCast}, {"wchar_t", literalCast},
	{"long long", literalLL}, {"unsigned long long", literalULL}, {"...", literalCast},

	{"decimal32", literalCast}, {"decimal64", literalCast}, {"decimal128", literalCast}, {"half", literalFloat},
	{"char8_t", literalCast}, {"char16_t", literalCast}, {"char32_t", literalCast}, {"decltype(nullptr)", literalCast},
}

const (
	builtinInt  = 'i' - 'a'
	builtinVoid = 'v' - 'a'
	builtinD    = 26
	nullptrType = builtinD + 7
)

// letterD are the letters of the builtins from builtinD on.
const letterD = "fdehusin"

// An operator has operands, and prints its name between or before them. Names
// that end with a space are words.
type operator struct {
	code  string
	name  string
	args  int
	since int // first GCC
}

var operators = [...]operator{
	{"aN", "&=", 2, 0}, {"aS", "=", 2, 0}, {"aa", "&&", 2, 0}, {"ad", "&", 1, 0}, {"an", "&", 2, 0}, {"at", "alignof ", 1, 0},
	{"aw", "co_await ", 1, 10}, {"az", "alignof ", 1, 0}, {"cc", "const_cast", 2, 0}, {"cl", "()", 2, 0}, {"cm", ",", 2, 0},
	{"co", "~", 1, 0}, {"dV", "/=", 2, 0}, {"dX", "[...]=", 3, 11}, {"da", "delete[] ", 1, 0}, {"dc", "dynamic_cast", 2, 0},
	{"de", "*", 1, 0}, {"di", "=", 2, 11}, {"dl", "delete ", 1, 0}, {"ds", ".*", 2, 0}, {"dt", ".", 2, 0}, {"dv", "/", 2, 0},
	{"dx", "]=", 2, 11}, {"eO", "^=", 2, 0}, {"eo", "^", 2, 0}, {"eq", "==", 2, 0}, {"fL", "...", 3, 0}, {"fR", "...", 3, 0},
	{"fl", "...", 2, 0}, {"fr", "...", 2, 0}, {"ge", ">=", 2, 0}, {"gs", "::", 1, 0}, {"gt", ">", 2, 0}, {"ix", "[]", 2, 0},
	{"lS", "<<=", 2, 0}, {"le", "<=", 2, 0}, {"li", "operator\"\" ", 1, 0}, {"ls", "<<", 2, 0}, {"lt", "<", 2, 0},
	{"mI", "-=", 2, 0}, {"mL", "*=", 2, 0}, {"mi", "-", 2, 0}, {"ml", "*", 2, 0}, {"mm", "--", 1, 0}, {"na", "new[]", 3, 0},
	{"ne", "!=", 2, 0}, {"ng", "-", 1, 0}, {"nt", "!", 1, 0}, {"nw", "new", 3, 0}, {"nx", "noexcept", 1, 14}, {"oR", "|=", 2, 0},
	{"oo", "||", 2, 0}, {"or", "|", 2, 0}, {"pL", "+=", 2, 0}, {"pl", "+", 2, 0}, {"pm", "->*", 2, 0}, {"pp", "++", 1, 0},
	{"ps", "+", 1, 0}, {"pt", "->", 2, 0}, {"qu", "?", 3, 0}, {"rM", "%=", 2, 0}, {"rS", ">>=", 2, 0},
	{"rc", "reinterpret_cast", 2, 0}, {"rm", "%", 2, 0}, {"rs", ">>", 2, 0}, {"sP", "sizeof...", 1, 0}, {"sZ", "sizeof...", 1, 0},
	{"sc", "static_cast", 2, 0}, {"ss", "<=>", 2, 10}, {"st", "sizeof ", 1, 0}, {"sz", "sizeof ", 1, 0}, {"tr", "throw", 0, 0},
	{"tw", "throw ", 1, 0},
}

// abbreviations of names of the standard library: what is printed, what before
// a constructor, and the name that a constructor then has.
var abbreviations = [...]struct {
	code           byte
	name, expanded string
	last           string
}{
	{'t', "std", "std", ""},
	{'a', "std::allocator", "std::allocator", "allocator"},
	{'b', "std::basic_string", "std::basic_string", "basic_string"},
	{'s', "std::string", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "basic_string"},
	{'i', "std::istream", "std::basic_istream<char, std::char_traits<char> >", "basic_istream"},
	{'o', "std::ostream", "std::basic_ostream<char, std::char_traits<char> >", "basic_ostream"},
	{'d', "std::iostream", "std::basic_iostream<char, std::char_traits<char> >", "basic_iostream"},
}
