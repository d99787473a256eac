package tool

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"footfall/formats/llvm/fixtures"
	"footfall/process/needs"
)

// installed are the tools of Debian 12, and programs whose data they read.
var installed = []struct {
	version  int
	programs []string
}{
	{14, []string{"clang-9/templ"}},
	{16, []string{"clang-14/macros"}},
	{19, []string{"clang-19/mcdc", "clang-16/templ"}},
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

// TestInstalled gives the tools of this machine the same arguments, and compares what they print.
func TestInstalled(t *testing.T) {
	for _, tools := range installed {
		for _, program := range tools.programs {
			f := fixtures.Of(t, program)
			unpack(t, f)
			for _, run := range runs {
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
