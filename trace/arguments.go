package trace

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Argument of a function is recorded with its calls.
type Argument struct {
	Name string `json:"name"`
	// Format says what it is, with the number of bits that count:
	//
	//	d32   signed    u32   unsigned    x32   hexadecimal
	//	c     a byte as a character       b     true or false
	//	p     a pointer                   s     a string
	//	f32 f64   floating point          e32   one of Values, else signed
	Format string           `json:"format"`
	Values map[int64]string `json:"values,omitempty"`
}

// A value is an argument of one call.
type value struct {
	name string
	text string // for people
	json string
}

// plain is the value without quotes.
func (v *value) plain() string {
	var s string
	if json.Unmarshal([]byte(v.json), &s) == nil && s != "" {
		return s
	}
	return v.text
}

// values makes values of the words of a call. An argument is one word; of a
// string there are the pointer, then its length in the low half of a word, and as
// many words as it takes.
func (f *Function) values(words []uint64) []value {
	var all []value
	for i := range f.Arguments {
		a := &f.Arguments[i]
		if len(words) == 0 {
			break // the recording is damaged
		}
		v := value{name: a.Name}
		if a.Format == "s" {
			v.text, v.json, words = stringValue(words)
		} else {
			v.text, v.json = a.word(words[0])
			words = words[1:]
		}
		all = append(all, v)
	}
	return all
}

// Of the word with the length of a string.
const (
	stringCut = 1 << 32 // there is more of it
	stringBad = 1 << 33 // there is no memory where it goes on
)

func stringValue(words []uint64) (text, inJSON string, rest []uint64) {
	pointer := words[0]
	if len(words) < 2 {
		return "?", "null", nil
	}
	status := words[1]
	n := int(min(status&math.MaxUint32, uint64(8*len(words[2:]))))
	taken := (n + 7) / 8
	var b []byte
	for _, w := range words[2 : 2+taken] {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	s := string(b[:n])
	rest = words[2+taken:]
	switch {
	case pointer == 0:
		return "NULL", "null", rest
	case status&stringBad != 0 && n == 0:
		return fmt.Sprintf("%#x (unreadable)", pointer), "null", rest
	case status&(stringCut|stringBad) != 0:
		return strconv.Quote(whole(s)) + "...", quote(whole(s) + "..."), rest
	}
	return strconv.Quote(s), quote(s), rest
}

// whole leaves out the beginning of a character at the end.
func whole(s string) string {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if c := s[len(s)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return s[:len(s)-n]
			}
			break
		}
	}
	return s
}

// word makes text of a word, for people and for JSON.
func (a *Argument) word(w uint64) (text, inJSON string) {
	kind, bits := "u", 64
	if a.Format != "" {
		kind = a.Format[:1]
		if n, err := strconv.Atoi(a.Format[1:]); err == nil && n > 0 && n < 64 {
			bits = n
		}
	}
	low := w << (64 - bits) >> (64 - bits)
	signed := int64(w<<(64-bits)) >> (64 - bits)
	switch kind {
	case "d":
		text = strconv.FormatInt(signed, 10)
	case "e":
		name, known := a.Values[signed]
		if !known {
			name, known = a.Values[int64(low)]
		}
		if known {
			return name, quote(name)
		}
		text = strconv.FormatInt(signed, 10)
	case "x":
		text = fmt.Sprintf("%#x", low)
		return text, quote(text)
	case "p":
		if text = fmt.Sprintf("%#x", w); w == 0 {
			text = "NULL"
		}
		return text, quote(text)
	case "c":
		text = strconv.QuoteToASCII(string([]byte{byte(w)}))
		return "'" + text[1:len(text)-1] + "'", quote(string(rune(byte(w))))
	case "b":
		text = strconv.FormatBool(byte(w) != 0)
	case "f":
		f := math.Float64frombits(w)
		if bits == 32 {
			f = float64(math.Float32frombits(uint32(w)))
		}
		text = strconv.FormatFloat(f, 'g', -1, max(bits, 32))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return text, quote(text)
		}
	default:
		text = strconv.FormatUint(low, 10)
	}
	return text, text
}

// written writes the arguments of a call as source has them, in parentheses.
func (h *Header) written(c *FunctionCall) string {
	if len(c.Words) == 0 {
		return "()"
	}
	var parts []string
	for _, v := range h.Functions[c.Function].values(c.Words) {
		parts = append(parts, v.name+"="+v.text)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// object writes the arguments of a call as a JSON object.
func (h *Header) object(c *FunctionCall) string {
	var b strings.Builder
	for i, v := range h.Functions[c.Function].values(c.Words) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(v.name) + ":" + v.json)
	}
	return "{" + b.String() + "}"
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}
