package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tool is a program that an environment is made with.
type Tool struct {
	Name    string `json:"name"`
	Path    string `json:"path"` // without links
	Version string `json:"version"`
	ABI     string `json:"abi,omitempty"` // of an interpreter, as its compiled modules are named by
}

// MissingToolError is a tool that the host does not have.
type MissingToolError struct {
	Tool    string
	Package string // that has it
}

func (e *MissingToolError) Error() string {
	return fmt.Sprintf("this host has no %s: install %s", e.Tool, e.Package)
}

// MissingIn returns the tools that a text with the errors misses, in the order of their names.
func MissingIn(text string) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for tool, from := range packages {
			if strings.Contains(text, (&MissingToolError{tool, from}).Error()) && !yield(tool) {
				return
			}
		}
	})
}

// packages names where an administrator finds each tool.
var packages = map[string]string{
	"git": "the package git", "python3": "the package python3", "pip": "the package python3-pip",
	"node": "the package nodejs", "npm": "the package npm", "go": "Go (https://go.dev/dl) into /usr/local/go",
	"cargo": "the package cargo", "java": "the package default-jdk", "php": "the package php-cli",
	"composer": "the package composer", "ruby": "the package ruby", "bundle": "the package bundler",
	"mvn": "the package maven", "gradle": "the package gradle", "poetry": "poetry from PyPI into /usr/local/bin",
	"uv":         "uv from PyPI (pip install uv) into /usr/local/bin",
	"micromamba": "micromamba of conda-forge (https://mamba.readthedocs.io) into /usr/local/bin",
}

// Host is where tools are looked for.
type Host struct {
	Path  string            // as PATH: directories that sessions cannot write
	Env   map[string]string // of the steps of builds, beside their own
	Facts Facts             // read and added to by Plan, in one goroutine; nil to ask the tools each time
}

// Tool returns a tool of any language with its version.
func (h Host) Tool(ctx context.Context, name string) (Tool, error) {
	switch name {
	case "pip":
		_, pip, err := h.python(ctx)
		if err == nil && pip.Version == "" {
			err = &MissingToolError{name, packages[name]}
		}
		return pip, err
	case "python3":
		python, _, err := h.python(ctx)
		return python, err
	case "go":
		return h.versioned(ctx, name, "version")
	}
	return h.versioned(ctx, name, "--version")
}

// find returns the real path of a tool.
func (h Host) find(name string) (string, error) {
	for _, dir := range filepath.SplitList(h.Path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return filepath.EvalSymlinks(file)
		}
	}
	return "", &MissingToolError{name, packages[name]}
}

// ask runs a tool and returns its output.
func (h Host) ask(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// No tool makes that directory, as go would to count its uses.
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + h.Path, "LC_ALL=C", "HOME=/proc/nonexistent"}
	cmd.WaitDelay = time.Second // for processes that hold the pipe
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", args[0], err)
	}
	return out, nil
}

// versioned returns a tool with the first line that it prints for the argument as the version.
func (h Host) versioned(ctx context.Context, name, argument string) (Tool, error) {
	path, err := h.find(name)
	if err != nil {
		return Tool{}, err
	}
	key := path
	if filepath.Base(path) != name {
		key += " as " + name
	}
	tools, err := h.recall(key, path, func() ([]Tool, []string, error) {
		out, err := h.ask(ctx, path, argument)
		first, _, _ := strings.Cut(string(out), "\n")
		return []Tool{{Name: name, Path: path, Version: first}}, nil, err
	})
	if err != nil {
		return Tool{}, err
	}
	return tools[0], nil
}

// python returns the interpreter, and pip as one of its modules, without a version if it is missing.
func (h Host) python(ctx context.Context) (interpreter, pip Tool, err error) {
	path, err := h.find("python3")
	if err != nil {
		return Tool{}, Tool{}, err
	}
	tools, err := h.recall(path, path, func() ([]Tool, []string, error) { return h.askPython(ctx, path) })
	if err != nil {
		return Tool{}, Tool{}, err
	}
	return tools[0], tools[1], nil
}

// askPython returns the directories of modules too: one changes when pip is installed there.
func (h Host) askPython(ctx context.Context, path string) (tools []Tool, directories []string, err error) {
	out, err := h.ask(ctx, path, "-I", "-c", `
import importlib.metadata, json, os, sys, sysconfig
try: pip = importlib.metadata.version("pip")
except importlib.metadata.PackageNotFoundError: pip = ""
print(json.dumps({"path": os.path.realpath(sys.executable), "version": sys.version, "pip": pip, "modules": sys.path,
                  "abi": sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag}))`)
	if err != nil {
		return nil, nil, err
	}
	var facts struct {
		Path, Version, Pip, ABI string
		Modules                 []string
	}
	if err := json.Unmarshal(out, &facts); err != nil {
		return nil, nil, fmt.Errorf("cannot read what %s reports of itself: %w", path, err)
	}
	return []Tool{{"python3", facts.Path, facts.Version, facts.ABI},
		{Name: "pip", Version: facts.Pip}}, facts.Modules, nil
}
