package listing

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

// fuzzOptions are chosen from by a byte.
var fuzzOptions = []string{
	"-t", "-t -a -b -c -w", "-t -b -f -m -u", "-t -j -b", "-n -f -k -q", "-t -g -a -b", "-t -e --prime-paths-lines=both --prime-paths-source=both",
	"-t -e -j -g", "-n -D", "-t -H -b -r -s /src", "-t --exclude m -M -b",
}

// FuzzListing lists hostile notes and data, in all versions. Whatever they
// hold, it ends.
func FuzzListing(f *testing.F) {
	seeds := 0
	for _, fx := range fixtures.All(f, "gcc") {
		if fx.Program != "except" && fx.Program != "switches-path" && fx.Program != "conds-cond" && fx.Program != "templ" {
			continue
		}
		for name, notes := range fx.Inputs {
			if stem, ok := strings.CutSuffix(name, ".gcno"); ok {
				f.Add(notes, fx.Inputs[stem+".gcda"], byte(seeds), byte(0))
				f.Add(notes[:len(notes)*2/3], fx.Inputs[stem+".gcda"], byte(seeds), byte(seeds))
				seeds++
			}
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, notes, data []byte, options, version byte) {
		name := filepath.Join(dir, "x")
		if err := os.WriteFile(name+".gcno", notes, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name+".gcda", data, 0o666); err != nil {
			t.Fatal(err)
		}
		v := gcov.Version(0)
		if version > 0 {
			v = gcov.MakeVersion(4+int(version)%13, int(version)/13%10)
		}
		args := strings.Fields(fuzzOptions[int(options)%len(fuzzOptions)])
		Run(&Invocation{Prog: "gcov", Args: append(args, name+".gcda"), Version: v, Stdout: io.Discard, Stderr: io.Discard})
	})
}
