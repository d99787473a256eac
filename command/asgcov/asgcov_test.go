package asgcov

import "testing"

func TestIsName(t *testing.T) {
	for program, want := range map[string]bool{
		"gcov":                          true,
		"/usr/bin/gcov-13":              true,
		"x86_64-linux-gnu-gcov-12":      true,
		"footfall-gcov":                 true,
		"llvm-cov-19":                   true,
		"footfall":                      false,
		"/opt/gcov/bin/footfall":        false,
		"gcov-tool":                     false,
		"x86_64-linux-gnu-gcov-dump-12": false,
	} {
		if got := IsName(program); got != want {
			t.Errorf("IsName(%q) = %t", program, got)
		}
	}
}
