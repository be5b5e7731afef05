package codexhome

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const installHint = "install it with `npm install -g @openai/codex`, or set codex_path in its file"

// target is the npm package's name of this machine: the platform package, and the directory in it.
var target = map[string][2]string{
	"amd64": {"codex-linux-x64", "x86_64-unknown-linux-musl"},
	"arm64": {"codex-linux-arm64", "aarch64-unknown-linux-musl"},
}[runtime.GOARCH]

// npmPrefixes are the directories of `npm install -g`: its own default, and the default of distributions.
var npmPrefixes = []string{"/usr/local/lib/node_modules", "/usr/lib/node_modules"}

// errScript means that a file is neither the native codex nor the npm package's start script.
var errScript = errors.New("it is a script")

// findCodex returns the native binary, never the npm package's node script, which would put a second process of
// 48 MB between systemd and codex. Without codex_path it looks on searchPath and in prefixes.
func findCodex(w *Worker, searchPath string, prefixes []string) (string, error) {
	if w.CodexPath != "" {
		binary, err := native(w.CodexPath)
		if err != nil {
			return "", w.problem("codex_path", fmt.Sprintf("cannot use codex_path = %q: %v", w.CodexPath, err),
				pathHint(w.CodexPath, err))
		}
		return binary, nil
	}
	var faults []string
	for _, path := range candidates(searchPath, prefixes) {
		binary, err := native(path)
		if err == nil {
			return binary, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, fmt.Sprintf("%s: %v", path, err))
		}
	}
	if len(faults) > 0 {
		return "", &Problem{Text: "cannot use codex (" + strings.Join(faults, "; ") + ")", Hint: installHint}
	}
	return "", &Problem{Text: "codex is not installed", Hint: installHint}
}

func candidates(searchPath string, prefixes []string) []string {
	var list []string
	for _, dir := range filepath.SplitList(searchPath) {
		if filepath.IsAbs(dir) {
			list = append(list, filepath.Join(dir, "codex"))
		}
	}
	for _, prefix := range prefixes {
		list = append(list, filepath.Join(prefix, "@openai/codex/bin/codex.js"))
	}
	return list
}

func pathHint(path string, err error) string {
	switch {
	case errors.Is(err, errScript):
		return "name the native binary inside the npm package"
	case strings.HasPrefix(path, "/home/") || strings.HasPrefix(path, "/root/"):
		return "the unit cannot see /home and /root (ProtectHome=yes); install codex elsewhere"
	}
	return ""
}

// native follows links, and the npm start script, to the binary.
func native(path string) (string, error) {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if filepath.Base(file) == "codex.js" {
		return packaged(filepath.Dir(filepath.Dir(file)))
	}
	return file, isProgram(file)
}

// packaged finds the binary of the npm package at root as node finds the platform package: nested in root, then
// hoisted next to it or further up; then in root itself, for packages without platform packages.
func packaged(root string) (string, error) {
	for dir := root; ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, "node_modules/@openai", target[0], "vendor", target[1], "bin/codex")
		if isProgram(file) == nil {
			return file, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	file := filepath.Join(root, "vendor", target[1], "bin/codex")
	if err := isProgram(file); err != nil {
		return "", fmt.Errorf("the npm package at %s lacks its native binary (@openai/%s); reinstall it",
			root, target[0])
	}
	return file, nil
}

// isProgram is nil for a native executable.
func isProgram(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return errors.New("it is not executable")
	}
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || !bytes.Equal(magic, []byte("\x7fELF")) {
		return errScript
	}
	return nil
}
