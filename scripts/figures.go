//go:build ignore

// Figures counts what docs/rationale.md compares of codebases of Go: files for Linux on amd64, without tests and generated ones.
//
//	go run scripts/figures.go DIR
//
// A circle is files of a package that use each other's functions, types, variables or constants, directly or through others;
// fields and methods do not count. Packages whose largest circle has fewer than four files are left out.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// manyFields is what no reader holds in the head; smallCircle is left out.
const (
	manyFields  = 20
	smallCircle = 4
)

// figures are those of a codebase.
type figures struct {
	files, functions []int // lines of each
	structs, large   int
	most             int // fields of largest
	largest          string
	circles          []circle
}

// A circle is the largest one of a package.
type circle struct {
	dir   string
	n, of int // files
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run scripts/figures.go DIR")
		os.Exit(2)
	}
	f, err := count(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	f.print()
}

func (f *figures) print() {
	lines := 0
	for _, n := range f.files {
		lines += n
	}
	slices.Sort(f.files)
	slices.Sort(f.functions)
	slices.SortFunc(f.circles, func(a, b circle) int { return cmp.Or(b.n-a.n, strings.Compare(a.dir, b.dir)) })
	at := func(of []int, tenths int) int { return of[min(len(of)*tenths/10, len(of)-1)] }
	fmt.Printf("lines: %d in %d files\n", lines, len(f.files))
	fmt.Printf("functions: median %d, 9 of 10 %d, longest %d\n", at(f.functions, 5), at(f.functions, 9), at(f.functions, 10))
	fmt.Printf("files: median %d, longest %d\n", at(f.files, 5), at(f.files, 10))
	fmt.Printf("structs of more than %d fields: %d of %d (%s %d)\n", manyFields, f.large, f.structs, f.largest, f.most)
	for _, c := range f.circles {
		fmt.Printf("circle: %s %d of %d\n", c.dir, c.n, c.of)
	}
}

func count(root string) (*figures, error) {
	var f figures
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if n := d.Name(); path != root && (n == "testdata" || n == "vendor" || strings.HasPrefix(n, ".") || strings.HasPrefix(n, "_")) {
			return fs.SkipDir
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return f.addPackage(path, dir)
	})
	if err == nil && len(f.functions) == 0 {
		err = fmt.Errorf("%s: no functions of Go in it", root)
	}
	return &f, err
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// addPackage adds the files in a directory, which is called dir.
func (f *figures) addPackage(path, dir string) error {
	linux := build.Default
	linux.GOOS, linux.GOARCH = "linux", "amd64"
	names, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if built, err := linux.MatchFile(path, filepath.Base(name)); err != nil || !built || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if generated.Match(text) {
			continue
		}
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, file)
		f.files = append(f.files, bytes.Count(text, []byte("\n")))
		f.addFile(set, file, dir)
	}
	if n := largestCircle(files); n >= smallCircle {
		f.circles = append(f.circles, circle{dir, n, len(files)})
	}
	return nil
}

// addFile adds the functions and structs of a file.
func (f *figures) addFile(set *token.FileSet, file *ast.File, dir string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.functions = append(f.functions, set.Position(n.End()).Line-set.Position(n.Pos()).Line+1)
		case *ast.TypeSpec:
			s, ok := n.Type.(*ast.StructType)
			if !ok {
				return true
			}
			fields := 0
			for _, field := range s.Fields.List {
				fields += max(1, len(field.Names))
			}
			f.structs++
			if fields > manyFields {
				f.large++
			}
			if fields > f.most {
				f.most, f.largest = fields, dir+"."+n.Name.Name
			}
		}
		return true
	})
}

// largestCircle returns how many files of a package are in its largest circle.
func largestCircle(files []*ast.File) (most int) {
	declared := declarations(files)
	reached := make([]map[int]bool, len(files))
	uses := make([]map[int]bool, len(files))
	for i, file := range files {
		uses[i] = usedBy(file, i, declared)
	}
	for i := range files {
		reached[i] = make(map[int]bool)
		open := []int{i}
		for len(open) > 0 {
			from := open[len(open)-1]
			open = open[:len(open)-1]
			for to := range uses[from] {
				if !reached[i][to] {
					reached[i][to] = true
					open = append(open, to)
				}
			}
		}
	}
	for i := range files {
		n := 0
		for j := range reached[i] {
			if reached[j][i] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// declarations says in which of the files each name of the package is declared.
func declarations(files []*ast.File) map[string]int {
	in := make(map[string]int)
	for i, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name != "init" {
					in[d.Name.Name] = i
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						in[s.Name.Name] = i
					case *ast.ValueSpec:
						for _, name := range s.Names {
							in[name.Name] = i
						}
					}
				}
			}
		}
	}
	delete(in, "_")
	return in
}

// usedBy are the other files whose names file, which is number i, uses.
func usedBy(file *ast.File, i int, declared map[string]int) map[int]bool {
	fields := make(map[*ast.Ident]bool) // in literals of structs: fields, not names of the package
	ast.Inspect(file, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok {
				fields[name] = true
			}
		}
		return true
	})
	used := make(map[int]bool)
	for _, name := range file.Unresolved {
		if other, ok := declared[name.Name]; ok && other != i && !fields[name] {
			used[other] = true
		}
	}
	return used
}
