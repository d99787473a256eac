// Sbom writes, in CycloneDX's JSON, which modules a program was built of, as the go command has
// recorded them in it.
//
//	go run ./sbom.go PROGRAM NAME VERSION >FILE
//
// The format: https://cyclonedx.org/docs/1.6/json
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
)

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: sbom PROGRAM NAME VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	components := []component{{"library", "std", info.GoVersion[len("go"):], "pkg:golang/std@" + info.GoVersion[len("go"):]}}
	for _, m := range info.Deps {
		components = append(components, component{"library", m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{
		"bomFormat":   "CycloneDX",
		"specVersion": "1.6",
		"version":     1,
		"metadata":    map[string]any{"component": component{"application", args[1], args[2], ""}},
		"components":  components,
	})
}
