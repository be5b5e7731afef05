package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is the product's source, type-checked: the packages of the module
// without their tests and without the packages of test/ and the fakes, whose
// names end in "test".
type tree struct {
	fset     *token.FileSet
	packages []*pkg
	byPath   map[string]*pkg
}

// pkg is one package of the product.
type pkg struct {
	path  string // relative to the module; "." is its top
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// listed is what `go list -json` prints of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct {
		Path string
		Main bool
	}
}

// load type-checks the product of the module in dir. The packages of other
// modules and of the standard library come from the compiler's export data.
func load(dir string) (*tree, error) {
	all, err := list(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{fset: token.NewFileSet(), byPath: map[string]*pkg{}}
	exports := map[string]string{}
	sources := &sourceImporter{checked: map[string]*types.Package{}}
	sources.exports = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, l := range all { // dependencies come first
		if l.Module == nil || !l.Module.Main {
			exports[l.ImportPath] = l.Export
			continue
		}
		p, err := t.check(l, sources)
		if err != nil {
			return nil, err
		}
		sources.checked[l.ImportPath] = p.types
		if product(p.path) && len(p.files) > 0 {
			t.packages = append(t.packages, p)
			t.byPath[l.ImportPath] = p
		}
	}
	return t, nil
}

func list(dir string) ([]listed, error) {
	// The flags of make, so that Go's cache has the packages.
	cmd := exec.Command("go", "list", "-trimpath", "-tags=netgo,osusergo", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// product reports whether the package, by its path relative to the module, is
// part of the product: not of the tests.
func product(path string) bool {
	return path != "test" && !strings.HasPrefix(path, "test/") && !strings.HasSuffix(path, "test")
}

func (t *tree) check(l listed, imports types.Importer) (*pkg, error) {
	p := &pkg{path: strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, l.Module.Path), "/")}
	if p.path == "" {
		p.path = "."
	}
	for _, name := range l.GoFiles {
		file, err := parser.ParseFile(t.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, file)
	}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	var err error
	config := types.Config{Importer: imports}
	p.types, err = config.Check(l.ImportPath, t.fset, p.files, p.info)
	return p, err
}

// file returns the name of the file that holds pos, relative to its package.
func (t *tree) file(pos token.Pos) string { return filepath.Base(t.fset.Position(pos).Filename) }

// sourceImporter returns packages of the module as they were checked from source, so
// that one definition is one object everywhere; all others from export data.
type sourceImporter struct {
	checked map[string]*types.Package
	exports types.Importer
}

func (s *sourceImporter) Import(path string) (*types.Package, error) {
	if p := s.checked[path]; p != nil {
		return p, nil
	}
	return s.exports.Import(path)
}
