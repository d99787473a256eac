package coverage

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fill sets all there is in v, whatever is added to the types.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(int32(r.Uint64())))
		if v.Kind() == reflect.Int64 && r.IntN(2) == 0 {
			v.SetInt(int64(r.Uint64()))
		}
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	case reflect.String:
		v.SetString(fmt.Sprintf("%x", r.Uint64N(1<<r.IntN(64)))[r.IntN(2):])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]Expansion]() && r.IntN(4) > 0 { // which are in each other
			return
		}
		n := 1 + r.IntN(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

// TestPack packs files all fields of which are set.
func TestPack(t *testing.T) {
	for seed := range seeds(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		want := new(File)
		fill(r, reflect.ValueOf(want).Elem())
		if diff := cmp.Diff(want, unpack(want.Name, want.pack())); diff != "" {
			t.Fatalf("seed %d: (-packed +unpacked)\n%s", seed, diff)
		}
	}
	if diff := cmp.Diff(&File{Name: "a"}, unpack("a", new(File).pack())); diff != "" {
		t.Errorf("nothing: %s", diff)
	}
}

// TestLargeSet does all that can be done with a set to small ones and to the same as large ones.
func TestLargeSet(t *testing.T) {
	plain := func(s string) string { return s }
	for seed := range seeds(200) {
		var results [2]*Set
		for large := range results {
			r := rand.New(rand.NewPCG(seed, 2))
			sets := make([]*Set, 4)
			for i := range sets {
				sets[i] = randomSet(r)
				if large == 1 {
					sets[i].large = true
					sets[i].shrink()
					for _, f := range sets[i].files {
						if f.file != nil {
							t.Fatalf("seed %d: %s is not packed in a large set", seed, f.name)
						}
					}
				}
			}
			var sum Sum
			sum.Take(sets[0])
			sum.Take(sets[1])
			for _, f := range sets[2].All() {
				sum.Add(f)
			}
			s := sum.Set()
			s.Update(func(i int, f *File) Update {
				switch {
				case f.Name == "/b.c" && seed%3 == 0:
					return Gone
				case len(f.Lines) > 1:
					f.Lines = f.Lines[1:]
					return Changed
				}
				return Same
			})
			s.Subtract(sets[3], plain)
			s.Add(&File{Name: "/z.c"}, &File{Name: "/0.c", Lines: []Line{{Number: 1}}})
			results[large] = s
			var totals Totals
			for _, f := range s.All() {
				totals.Add(f.Totals())
			}
			if s.Totals() != totals {
				t.Errorf("seed %d, large %d: totals %+v, those of the files are %+v", seed, large, s.Totals(), totals)
			}
		}
		if diff := cmp.Diff(results[0].Files(), results[1].Files(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: (-small +large)\n%s", seed, diff)
		}
	}
}

// TestSetBecomesLarge adds more than is held as it is.
func TestSetBecomesLarge(t *testing.T) {
	var s Set
	const files, lines = 7, mostUnpacked / 6
	for i := range files {
		f := &File{Name: fmt.Sprint("/", files-i)}
		for n := range int32(lines) {
			f.Lines = append(f.Lines, Line{Number: n + 1, Count: int64(n % 3)})
		}
		s.Add(f)
	}
	if !s.large || s.Len() != files || s.At(0).Name != "/1" || s.File("/3") == nil || s.File("/8") != nil {
		t.Errorf("large: %t, %d files", s.large, s.Len())
	}
	if got := s.Totals().Lines; got != (Ratio{files * lines * 2 / 3, files * lines}) && got.Total != files*lines {
		t.Errorf("lines %+v", got)
	}
}
