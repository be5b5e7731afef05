// Package rooms compares the packages of the product with the rules of depguard
// in .golangci.yml: every package has one rule, which lists the packages of ours
// that it imports. The table of CONTRIBUTING.md is made from both.
package rooms

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/doc"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	module   = "codex-proxy/"
	unlisted = "unlisted" // the rule for all packages that have none
)

// Room is a package of the product.
type Room struct {
	Path    string   // relative to the module
	Holds   string   // the first sentence of its documentation
	Imports []string // packages of the product, by their paths
}

// Rule is one rule of depguard.
type Rule struct {
	Mode  string   `yaml:"list-mode"`
	Files []string `yaml:"files"`
	Allow []string `yaml:"allow"`
	Deny  []struct {
		Package string `yaml:"pkg"`
	} `yaml:"deny"`
}

// Rooms returns the packages of the product in the module of the directory top:
// all but those of test/, whose imports are free.
func Rooms(top string) ([]Room, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports", "./...")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var rooms []Room
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Doc  string
			GoFiles, Imports []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return rooms, nil
		} else if err != nil {
			return nil, err
		}
		path := strings.TrimPrefix(p.ImportPath, module)
		if !strings.HasPrefix(path, "test/") && len(p.GoFiles) > 0 {
			rooms = append(rooms, Room{path, new(doc.Package).Synopsis(p.Doc), ours(p.Imports)})
		}
	}
}

// ours returns the packages of the module among imports, by their paths.
func ours(imports []string) []string {
	var paths []string
	for _, path := range imports {
		if path, ok := strings.CutPrefix(path, module); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// Rules returns the rules of depguard by their names.
func Rules(top string) (map[string]Rule, error) {
	data, err := os.ReadFile(filepath.Join(top, ".golangci.yml"))
	if err != nil {
		return nil, err
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]Rule `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	err = yaml.Unmarshal(data, &config)
	return config.Linters.Settings.Depguard.Rules, err
}

// Allows returns the packages that the rule allows, by their paths.
func (r Rule) Allows() []string {
	paths := ours(r.Allow)
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(path, "$") // matches the whole import path
	}
	slices.Sort(paths)
	return paths
}

// Table is the table of CONTRIBUTING.md: each package, what it holds and what it
// imports of the product.
func Table(rooms []Room) string {
	var b strings.Builder
	b.WriteString("| package | holds | imports |\n|---|---|---|\n")
	for _, r := range rooms {
		var imports []string
		for _, path := range r.Imports {
			imports = append(imports, "`"+path+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Path, r.holds(), strings.Join(imports, " "))
	}
	return b.String()
}

// holds is Holds without its subject, "Package NAME ".
func (r Room) holds() string {
	for _, subject := range []string{"Package ", "Command "} {
		if rest, ok := strings.CutPrefix(r.Holds, subject); ok {
			_, rest, _ = strings.Cut(rest, " ")
			return strings.TrimSuffix(strings.TrimPrefix(rest, "is "), ".")
		}
	}
	return r.Holds
}
