// Package rooms lists the packages of the product for CONTRIBUTING.md, and compares its rooms, the top-level
// directories, with the layers of depguard in .golangci.yml.
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
	"strings"

	"go.yaml.in/yaml/v3"
)

const module = "codex-proxy"

// Package is a package of the product.
type Package struct {
	Path  string // relative to the module
	Holds string // the first sentence of its documentation
}

// Packages returns the packages of the product in the module of the directory top: all but those of test/.
func Packages(top string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles", "./...")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []Package
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Doc string
			GoFiles         []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		if !strings.HasPrefix(path, "test/") && len(p.GoFiles) > 0 {
			packages = append(packages, Package{path, new(doc.Package).Synopsis(p.Doc)})
		}
	}
}

// Layers returns the rooms that have a rule of depguard about the packages of this module.
func Layers(top string) (rooms []string, err error) {
	data, err := os.ReadFile(filepath.Join(top, ".golangci.yml"))
	if err != nil {
		return nil, err
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string `yaml:"files"`
						Deny  []struct {
							Package string `yaml:"pkg"`
						} `yaml:"deny"`
					} `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	for _, rule := range config.Linters.Settings.Depguard.Rules {
		if !strings.HasPrefix(rule.Deny[0].Package, module) {
			continue
		}
		for _, glob := range rule.Files {
			if room, ok := strings.CutPrefix(glob, "**/"); ok {
				rooms = append(rooms, strings.TrimSuffix(room, "/**/*.go"))
			}
		}
	}
	return rooms, nil
}

// Table is the table of CONTRIBUTING.md: each package and what it holds.
func Table(packages []Package) string {
	var b strings.Builder
	b.WriteString("| package | holds |\n|---|---|\n")
	for _, p := range packages {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Path, p.holds())
	}
	return b.String()
}

// holds is Holds without its subject, "Package NAME ".
func (p Package) holds() string {
	for _, subject := range []string{"Package ", "Command "} {
		if rest, ok := strings.CutPrefix(p.Holds, subject); ok {
			_, rest, _ = strings.Cut(rest, " ")
			return strings.TrimSuffix(strings.TrimPrefix(rest, "is "), ".")
		}
	}
	return p.Holds
}
