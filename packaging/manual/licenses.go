package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const licensesHead = `Licences of what is linked into %[1]s

%[1]s itself is under the Apache License, version 2.0. Its start-up code,
and what that needs, is of the GNU C Library (LGPL-2.1-or-later, with its
exceptions); https://www.gnu.org/licenses/old-licenses/lgpl-2.1.html has the text.
`

// licenses are the licences of every Go module in the programs of the program's package, of Go, and of data of other
// projects, which has its licence in the directory of a package of ours.
func licenses(ctx context.Context, program string) (string, error) {
	list := []string{"list", "-deps", "-f",
		"{{with .Module}}{{if .Main}}" + ours + "{{$.ImportPath}}{{else}}{{.Path}} {{.Version}}{{end}}\t" +
			"{{if .Main}}{{$.Dir}}{{else}}{{.Dir}}{{end}}{{end}}"}
	out, err := exec.CommandContext(ctx, "go", append(list, "./cmd/"+program+"...")...).Output()
	if err != nil {
		return "", fmt.Errorf("cannot list the modules: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find Go: %w", err)
	}
	modules := append(lines(string(out)), "The Go programming language\t"+strings.TrimSpace(string(root)))
	slices.Sort(modules)
	text := fmt.Sprintf(licensesHead, program)
	for _, module := range slices.Compact(modules) {
		name, dir, ok := strings.Cut(module, "\t")
		if !ok { // a package without a module
			continue
		}
		license, err := license(dir)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", name, err)
		case license == "" && strings.HasPrefix(name, ours):
			continue
		case license == "":
			return "", fmt.Errorf("%s has no licence", name)
		}
		text += "\n" + strings.Repeat("=", 72) + "\n" + name + "\n\n" + license
	}
	return text, nil
}

// ours begins the name of a package of this module.
const ours = "data of "

// license is every licence and notice at the top of dir; empty without any.
func license(dir string) (string, error) {
	var text string
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "NOTICE*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			text += string(content)
		}
	}
	return text, nil
}
