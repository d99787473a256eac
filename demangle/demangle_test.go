package demangle

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// names calls f with the symbols of testdata/names.txt.zst, and what gcov of
// GCC 11 to 16 prints for each.
func names(t testing.TB, f func(symbol string, printed [6]string)) {
	file, err := os.Open("testdata/names.txt.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var printed [6]string
		symbol, rest, _ := strings.Cut(lines.Text(), "\t")
		for i := range printed {
			printed[i], rest, _ = strings.Cut(rest, "\t")
			if printed[i] == "" && i > 0 {
				printed[i] = printed[i-1]
			}
		}
		f(symbol, printed)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestAsGcov(t *testing.T) {
	n := 0
	names(t, func(symbol string, printed [6]string) {
		n++
		for i, want := range printed {
			if got := GNU(symbol, 11+i); got != want {
				t.Errorf("GCC %d, %s:\n got %s\nwant %s", 11+i, symbol, got, want)
			}
		}
	})
	if n < 5000 {
		t.Errorf("only %d symbols", n)
	}
}

// In GCC 9 and 10 a lambda is substitutable by itself, and sr has a type
// behind it.
func TestOldGCC(t *testing.T) {
	for _, c := range []struct{ symbol, want string }{
		{"_Z1fUlvE_S_S0_", "_Z1fUlvE_S_S0_"},
		{"_Z1fN1AUlvE_ES_S0_S1_", "f(A::{lambda()#1}, A, {lambda()#1}, A::{lambda()#1})"},
		{"_Z1fIiEvDTsr1AIT_E1xE", "void f<int>(decltype (A<int>::x))"},
		{"_Z1fIiEvDTsr1AIT_EE1xE", "_Z1fIiEvDTsr1AIT_EE1xE"},
	} {
		if got := GNU(c.symbol, 10); got != c.want {
			t.Errorf("%s: got %s, want %s", c.symbol, got, c.want)
		}
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct {
		symbol   string
		leaveOut form
		want     string
	}{
		{"_ZNK1AIiE1fIcEEvT_.part.0", whole, "void A<int>::f<char>(char) const [clone .part.0]"},
		{"_ZNK1AIiE1fIcEEvT_.part.0", noClones, "void A<int>::f<char>(char) const"},
		{"_ZNK1AIiE1fIcEEvT_.part.0", noParameters, "A<int>::f<char>"},
		{"_ZNK1AIiE1fIcEEvT_.part.0", noParameters | noTemplateArguments, "A::f"},
		{"_ZNK1AIiE1fIcEEvT_.part.0", noTemplateArguments, "void A::f(char) const [clone .part.0]"},
		{"_ZZ1fIiEvT_ENKUlvE_clEv", noParameters, "f<int>(int)::{lambda()#1}::operator()"},
		{"_ZZ1fvENK1A1gEv", noParameters, "f()::A::g"},
		{"_ZNSsC1ERKSs", noParameters | noTemplateArguments, "std::basic_string::basic_string"},
		{"_ZltIiEvT_", noParameters | noTemplateArguments, "operator<"},
		{"_ZN1AcvT_IiEEv", noParameters | noTemplateArguments, "A::operator int"},
		{"_Z6helperILm3EbJEERbR4packIXT_ET0_DpT1_E", whole, "bool& helper<3ul, bool>(pack<3ul, bool>&)"},
		{"_Z1fI1AI1BIiEJEEEvv", whole, "void f<A<B<int> > >()"},
		// GCC's own demangler gives up on these.
		{"_Z1fILi1ETnNSt9enable_ifIXeqT_Li1EEiE4typeELi0EEvv", noParameters, "f<1, 0>"},
		{"_ZSt12construct_atIiJRiEEDTgsnwcvPvLi0E_T_pispclsr3stdE7declvalIT0_EEEEPS2_DpOS3_", noParameters, "std::construct_at<int, int&>"},
		// Rust, and what is no symbol.
		{"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", whole, "core::fmt::Write::write_fmt"},
		{"_RNvC6_123foo3bar", whole, "123foo::bar"},
		{"main", whole, "main"},
		{"_start", whole, "_start"},
		{"_Zx", whole, "_Zx"},
		{"f.part.0", noParameters, "f.part.0"},
	} {
		if got := inForm(c.symbol, c.leaveOut); got != c.want {
			t.Errorf("%s without %b: got %s, want %s", c.symbol, c.leaveOut, got, c.want)
		}
	}
}

func TestLLVM(t *testing.T) {
	for _, c := range []struct {
		symbol  string
		release int
		want    string
	}{
		{"_Z6helperILm3EbJEERT0_R4packIXT_ES0_DpT1_E", 16, "bool& helper<3ul, bool>(pack<3ul, bool>&)"},
		{"_Z4fillIP4itemS0_EN6enableIXntsr6scalarIT0_EE5valueEvE4typeET_S6_RKS3_", 16,
			"enable<!scalar<item>::value, void>::type fill<item*, item>(item*, item*, item const&)"},
		{"_Z1fI1AI1BIiEEEvv", 16, "void f<A<B<int>>>()"},
		{"_Z1fI1AI1BIiEEEvv", 14, "void f<A<B<int> > >()"},
		{"_Z4fillIP4itemS0_EN6enableIXntsr6scalarIT0_EE5valueEvE4typeET_S6_RKS3_", 14,
			"enable<!(scalar<item>::value), void>::type fill<item*, item>(item*, item*, item const&)"},
		{"_ZrsI1AI1BIiEEEvv", 14, "void operator>><A<B<int> > >()"},
		{"_Z1fI1AEvN1BIDTcl5beginclsr3stdE7declvalIRKT_EEEEE4typeE", 14, "void f<A>(B<decltype(begin(std::declval<A const&>()))>::type)"},
		{"_Z1fI1AEvN1BIDTcl5beginclsr3stdE7declvalIRKT_EEEEE4typeE", 19, "void f<A>(B<decltype(begin(std::declval<A const&>()))>::type)"},
		{"_ZN1n1gIilEEDTclsr1nE4plusfp0_clsr1nE4plusfp_fp0_EEET_T0_", 14, "decltype(n::plus(fp0, n::plus(fp, fp0))) n::g<int, long>(int, long)"},
		{"_ZN1n1S1fIiEEDTclsr1nE4plusfp_ptfpT1mEET_", 14, "decltype(n::plus(fp, this->m)) n::S::f<int>(int)"},
		{"_ZNKSt12_Mem_fn_baseIM4NodeKFbvELb1EEclIJRPS0_EEEDTclsr3stdE8__invokedtdefpT6_M_pmfspclsr3stdE7forwardIT_Efp_EEEDpOS7_", 14,
			"decltype(std::__invoke(*(this)._M_pmf, std::forward<Node*&>(fp))) std::_Mem_fn_base<bool (Node::*)() const, true>::operator()<Node*&>(Node*&) const"},
		{"_ZN1n1S1fIiEEDTclsr1nE4plusfp_ptfpT1mEET_", 19, "decltype(n::plus(fp, this->m)) n::S::f<int>(int)"},
		{"_ZlsIiEvT_", 19, "void operator<<<int>(int)"},
		{"_Z1fv.isra.0.cold", 19, "f() (.isra.0.cold)"},
		{"_ZGTt1fv", 19, "_ZGTt1fv"},
		{"main.cold", 19, "main.cold"},
	} {
		if got := LLVM(c.symbol, c.release); got != c.want {
			t.Errorf("LLVM %d, %s: got %s, want %s", c.release, c.symbol, got, c.want)
		}
	}
}

// What doubles with each part of a name must end, and soon.
func TestHostile(t *testing.T) {
	for name, symbol := range map[string]string{
		"text":       "_Z1f" + "1AIiiE" + doubling(200),
		"references": "_Z1fIiEv" + "FRT_S0_E" + strings.Repeat("FS1_S1_E", 100),
		"nothing":    "_Z1fIJEEv" + "1AIDpT_DpT_E" + doubling(200),
		"conversion": "_ZN1Acv" + strings.Repeat("T_I", 300) + "i" + strings.Repeat("E", 300) + "Ev",
		"pointers":   "_Z1f" + strings.Repeat("P", 900) + "i",
		"functions":  "_Z1f" + strings.Repeat("PFv", 300) + strings.Repeat("E", 300),
		"names":      "_Z" + strings.Repeat("ZN", 400),
		"arguments":  "_Z1f" + strings.Repeat("1AI", 300) + "i" + strings.Repeat("E", 300),
		"itself":     "_ZN1AcvT_IS_EEv",
		"expression": "_Z1fIXes" + strings.Repeat("ng", 400),
		"long":       "_Z1f" + strings.Repeat("P", 1<<20) + "i",
		"deep":       "_Z1f" + strings.Repeat("F", 1<<20) + "i",
	} {
		for _, gcc := range []int{9, 12, 16} {
			start := time.Now()
			if got := GNU(symbol, gcc); len(got) > 2*mostText || len(symbol) > longestGNU && got != symbol {
				t.Errorf("%s: %d bytes", name, len(got))
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%s: %v", name, took)
			}
		}
	}
}

// doubling is n types, each with the one before it as its arguments twice.
func doubling(n int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var b strings.Builder
	for i := range n {
		s := "S"
		if i >= 36 {
			s += string(digits[i/36])
		}
		s += string(digits[i%36]) + "_"
		b.WriteString("S_I" + s + s + "E")
	}
	return b.String()
}

func FuzzDemangle(f *testing.F) {
	n := 0
	names(f, func(symbol string, _ [6]string) {
		if n++; n%10 == 0 {
			f.Add(symbol)
		}
	})
	f.Fuzz(func(t *testing.T, symbol string) {
		for _, gcc := range []int{9, 12, 16} {
			GNU(symbol, gcc)
		}
		if strings.HasPrefix(symbol, "_Z") && len(symbol) <= longestGNU {
			for _, form := range []form{whole, noParameters, noTemplateArguments} {
				demangle(symbol, lenient, form)
			}
		}
	})
}

func BenchmarkName(b *testing.B) {
	var symbols []string
	names(b, func(symbol string, _ [6]string) { symbols = append(symbols, symbol) })
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		GNU(symbols[i%len(symbols)], 16)
	}
}

// TestNamesWithoutEnd: symbols whose parts refer to each other, or are too many, stay as
// they are.
func TestNamesWithoutEnd(t *testing.T) {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	back := func(n int) string { // to an offset of at most two digits
		if n--; n < len(digits) {
			return "B" + digits[n:n+1] + "_"
		}
		return "B" + digits[n/62:n/62+1] + digits[n%62:n%62+1] + "_"
	}
	symbol, at := "INvC1a1fTuuE", len("INvC1a1f")
	for range 40 { // (T, T) of what is before
		part := "T" + back(at) + back(at) + "E"
		at = len(symbol)
		symbol += part
	}
	for _, s := range []string{"_R" + symbol + "E", "_ZN" + strings.Repeat("1a", 50000) + "Ev"} {
		if got := Full(s); got != s {
			t.Errorf("%.30s of %d bytes has become %d", s, len(s), len(got))
		}
		if got := GNU(s, 14); got != s {
			t.Errorf("GNU: %.30s of %d bytes has become %d", s, len(s), len(got))
		}
		if got := LLVM(s, 19); got != s {
			t.Errorf("LLVM: %.30s of %d bytes has become %d", s, len(s), len(got))
		}
	}
	if got := Full("_RINvC1a1fTuuEB8_E"); !strings.Contains(got, "((), ())") {
		t.Errorf("what ends is %s", got)
	}
}
