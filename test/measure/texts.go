package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kind is what a file of the tree is.
type kind string

const (
	productGo kind = "product (Go)"
	testGo    kind = "tests (Go)"
	document  kind = "documents (*.md)"
	other     kind = "other files of packaging, deb, rpm"
)

// text is one file of the tree that people read.
type text struct {
	path, data string // path is relative to the top
	kind       kind
}

// readTexts reads the Go files and documents of a tree, and all text of the
// directories of packaging. build/, testdata and hidden directories are no source.
func readTexts(dir string) ([]text, error) {
	var all []text
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != dir && (name == "build" || name == "testdata" || name == "node_modules" || name[0] == '.') {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		k := kindOf(relative)
		if k == "" || !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if !bytes.ContainsRune(data, 0) {
			all = append(all, text{relative, string(data), k})
		}
		return err
	})
	return all, err
}

// kindOf returns what the file of that path is, "" of a file that is not measured.
func kindOf(path string) kind {
	top, _, _ := strings.Cut(path, "/")
	switch {
	case strings.HasSuffix(path, "_test.go"):
		return testGo
	case strings.HasSuffix(path, ".go") && product(filepath.Dir(path)):
		return productGo
	case strings.HasSuffix(path, ".go"):
		return testGo
	case strings.HasSuffix(path, ".md"):
		return document
	case slices.Contains([]string{"packaging", "deb", "rpm"}, top):
		return other
	}
	return ""
}
