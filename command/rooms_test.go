package command

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestImportsGoDown holds the drawing of docs/architecture.md against what is imported.
func TestImportsGoDown(t *testing.T) {
	floors := readFloors(t)
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		from, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		room, ok := roomOf(from)
		if !ok {
			continue // main.go
		}
		seen[room] = true
		if _, ok := floors[room]; !ok {
			t.Errorf("docs/architecture.md: %s is on no floor", room)
			continue
		}
		for _, path := range strings.Fields(imports) {
			if to, ok := roomOf(path); ok && to != room && floors[to] <= floors[room] {
				t.Errorf("%s imports %s, which is not on a lower floor", from, path)
			}
		}
	}
	for room := range floors {
		if !seen[room] {
			t.Errorf("docs/architecture.md: there is no %s", room)
		}
	}
}

// roomOf returns the room of a package of ours.
func roomOf(path string) (room string, ok bool) {
	inside, ok := strings.CutPrefix(path, "footfall/")
	room, _, _ = strings.Cut(inside, "/")
	return room, ok
}

// readFloors returns the floor of each room in the drawing; the lowest has the
// greatest number.
func readFloors(t *testing.T) map[string]int {
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, drawing, ok := strings.Cut(string(page), "Imports go down only")
	_, drawing, ok2 := strings.Cut(drawing, "```\n")
	drawing, _, ok3 := strings.Cut(drawing, "```")
	if !ok || !ok2 || !ok3 {
		t.Fatal("docs/architecture.md has no drawing")
	}
	floors := make(map[string]int)
	for number, line := range strings.Split(strings.TrimSpace(drawing), "\n") {
		for _, room := range strings.Fields(line) {
			floors[room] = number
		}
	}
	return floors
}
