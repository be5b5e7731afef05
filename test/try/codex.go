package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// findCodex returns the native binary of the codex that s names or PATH has,
// or "" if there is none. A CODEX that can't be used is an error.
func findCodex(s settings) (string, error) {
	if s.codex != "" {
		binary := native(s.codex)
		if binary == "" {
			return "", fmt.Errorf("cannot use CODEX=%s: neither it nor an npm package around it has the native binary",
				s.codex)
		}
		return binary, nil
	}
	for _, dir := range filepath.SplitList(s.path) {
		if binary := native(filepath.Join(dir, "codex")); binary != "" {
			return binary, nil
		}
	}
	return "", nil
}

// native follows links and the node script of the npm package to the native
// binary: the script would be one more process between systemd and codex.
func native(path string) string {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	if filepath.Base(file) != "codex.js" {
		return program(file)
	}
	// The platform's package is nested in codex's own or hoisted beside it.
	for dir := filepath.Dir(filepath.Dir(file)); dir != "/"; dir = filepath.Dir(dir) {
		found, _ := filepath.Glob(filepath.Join(dir, "node_modules/@openai/codex-linux-*/vendor/*/bin/codex"))
		for _, binary := range found {
			if program(binary) != "" {
				return binary
			}
		}
	}
	return ""
}

// program returns an absolute path, or "" if it is no native executable.
func program(file string) string {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return ""
	}
	f, err := elf.Open(file)
	if err != nil {
		return ""
	}
	_ = f.Close()
	abs, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	return abs
}

// codexTree returns what to show of a codex in the machine and where the
// binary is then: of an npm package all that lies beside bin/.
func codexTree(binary string) (source, target, inside string) {
	if strings.Contains(binary, "/vendor/") && filepath.Base(filepath.Dir(binary)) == "bin" {
		return filepath.Dir(filepath.Dir(binary)), codexInside, codexInside + "/bin/codex"
	}
	return binary, codexInside + "/codex", codexInside + "/codex"
}
