package tool

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"footfall/formats/llvm/fixtures"
	"footfall/process/needs"
)

// installed are the tools of Debian 12, and programs whose data they read. Those of 22 are security updates, and
// compared where they are.
var installed = []struct {
	version  int
	programs []string
}{
	{14, []string{"clang-9/templ"}},
	{16, []string{"clang-14/macros"}},
	{19, []string{"clang-19/mcdc", "clang-16/templ"}},
	{22, []string{"clang-22/mcdc", "rust-1.95/rsgen"}},
}

// runs are options beyond those of the runs of the fixtures.
var runs = []string{
	"llvm-cov show ./main -instr-profile=base.profdata -show-regions -show-branches=count -show-expansions -use-color",
	"llvm-cov show ./main -instr-profile=base.profdata -region-coverage-gt=50 -name=main -show-line-counts-or-regions",
	"llvm-cov report ./main -instr-profile=base.profdata -use-color -show-instantiation-summary",
	"llvm-cov report ./main -instr-profile=base.profdata nothing.c",
	"llvm-cov report ./main -instr-profile=base.profdata -show-functions",
	"llvm-cov report ./main -instr-profile=base.profdata -format=lcov",
	"llvm-cov report base.profdata -instr-profile=base.profdata",
	"llvm-cov export ./main -instr-profile=base.profdata -format=html",
	"llvm-cov export ./main -instr-profile=base.profdata -skip-expansions",
	"llvm-cov export ./nothing -instr-profile=base.profdata",
	"llvm-cov export ./main -instr-profile=nothing.profdata",
	"llvm-cov report ./main -instr-profile=nothing.profdata",
	"llvm-cov show ./main -instr-profile=nothing.profdata",
	"llvm-profdata show -all-functions -counts -ic-targets -memop-sizes -detailed-summary -topn=2 base.profdata",
	"llvm-profdata show -value-cutoff=2 -list-below-cutoff base.profdata",
	"llvm-profdata show -detailed-summary -detailed-summary-cutoffs=500000,900000 base.profdata",
	"llvm-profdata show -function=main -text base.profdata",
	"llvm-profdata show main",
	"llvm-profdata show",
	"llvm-profdata show base.profdata -topn",
	"llvm-profdata show base.profdata -topn=x",
	"llvm-profdata show base.profdata another",
	"llvm-profdata merge base.profdata main -o out.profdata",
	"llvm-profdata merge -o out.profdata",
	"llvm-profdata merge -weighted-input=0,base.profdata -o out.profdata",
	"llvm-profdata merge -text -sparse base.profdata -weighted-input=2,base.profdata",
}

// moreRuns are of one program, by LLVM 14 and 19.
var moreRuns = []string{
	"llvm-cov",
	"llvm-cov list",
	"llvm-cov show ./main -instr-profile=base.profdata -name-allowlist=allowed",
	"llvm-cov show ./main -instr-profile=base.profdata -name-allowlist=allowed -name=main -path-equivalence=.,/nowhere",
	"llvm-cov show ./main -instr-profile=base.profdata -show-directory-coverage",
	"llvm-cov show ./main -instr-profile=base.profdata -coverage-watermark=foo",
	"llvm-cov show ./main -instr-profile=base.profdata -coverage-watermark=a,2",
	"llvm-cov show ./main -instr-profile=base.profdata -coverage-watermark=10,b",
	"llvm-cov show ./main -instr-profile=base.profdata -coverage-watermark=10,20",
	"llvm-profdata",
	"llvm-profdata list",
	"llvm-profdata merge -gcc base.profdata -o out.profdata",
	"llvm-profdata merge -dump-input-file-list base.profdata -weighted-input=3,base.profdata -o out.profdata",
	"llvm-profdata merge -text most.proftext most.proftext",
	"llvm-profdata merge -text cs.proftext",
	"llvm-profdata show none.proftext",
	"llvm-profdata show ends.proftext",
	"llvm-profdata show cut.profraw",
	"llvm-profdata merge cut.profraw -o out.profdata",
}

// newer are runs that LLVM 14 carries out otherwise: it has no such options, and two counts more below 2^64.
var newer = regexp.MustCompile("watermark|most.proftext|directory-coverage")

// given are files that runs name.
var given = map[string]string{
	"allowed":       "# comment\n\nallowlist_fun:*ma*n*\n[other]\nallowlist_fun:*\n",
	"most.proftext": "f\n1\n2\n9223372036854775808\n18446744073709551613\n\n",
	"cs.proftext":   ":csir\nf\n1152921534274394772\n1\n5\n\n",
	"none.proftext": "f\n1\n0\n",
	"ends.proftext": "f\n1\n2\n7\n",
	"cut.profraw":   "\x81rforpl\xff\x08\x00\x00",
}

// TestInstalled gives the tools of this machine the same arguments, and compares what they print.
func TestInstalled(t *testing.T) {
	for _, tools := range installed {
		if _, err := exec.LookPath("llvm-cov-22"); tools.version == 22 && err != nil {
			continue
		}
		for i, program := range tools.programs {
			f := fixtures.Of(t, program)
			unpack(t, f)
			for name, text := range given {
				if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			all := runs
			if i == 0 && tools.version != 16 {
				all = slices.Concat(runs, moreRuns)
			}
			for _, run := range all {
				if tools.version < 16 && newer.MatchString(run) {
					continue
				}
				words := strings.Fields(run)
				name := fmt.Sprintf("%s-%d", words[0], tools.version)
				path, err := exec.LookPath(name)
				if err != nil {
					needs.Skip(t, needs.Tools, err)
				}
				real := exec.Command(path, words[1:]...)
				var want, wantErr, got, gotErr bytes.Buffer
				real.Stdout, real.Stderr = &want, &wantErr
				failed := real.Run() != nil
				do := Cov
				if words[0] == "llvm-profdata" {
					do = Profdata
				}
				rc := do(&Invocation{Name: path, Args: words[1:], Version: tools.version, Stdout: &got, Stderr: &gotErr})
				if (rc != 0) != failed || got.String() != want.String() || gotErr.String() != wantErr.String() {
					t.Errorf("%s: %s-%d %s: failed %v, want %v\nstandard output:\n%.300q\n%.300q\nstandard error:\n%.300q\n%.300q", program, words[0], tools.version,
						run, rc != 0, failed, got.String(), want.String(), gotErr.String(), wantErr.String())
				}
			}
		}
	}
}
