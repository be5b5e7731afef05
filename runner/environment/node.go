package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// node installs package-lock.json with npm ci.
type node struct{}

func (node) Name() string                { return "node" }
func (node) Detect(workspace fs.FS) bool { return has(workspace, "package.json", "package-lock.json") }

func (node) Key(ctx context.Context, host Host, workspace fs.FS) ([]Manifest, []Tool, error) {
	files, err := manifests(workspace, "package.json", "package-lock.json", ".npmrc")
	if err != nil {
		return nil, nil, err
	}
	if has(workspace, "node_modules") {
		return nil, nil, fmt.Errorf("%w: the workspace has a node_modules of its own (remove it, or use the environment none)", ErrUnsupported)
	}
	if err := noLinks(files[1].Content); err != nil {
		return nil, nil, err
	}
	program, err := host.find("node")
	if err != nil {
		return nil, nil, err
	}
	tools, err := host.recall(program, func() ([]Tool, []string, error) {
		out, err := host.ask(ctx, program, "-p", "process.version + ' ' + process.versions.modules")
		version, abi, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		return []Tool{{"node", program, version, abi}}, nil, err
	})
	if err != nil {
		return nil, nil, err
	}
	npm, err := host.Tool(ctx, "npm")
	return files, append(slices.Clip(tools), npm), err
}

// noLinks refuses packages that lie in the workspace.
func noLinks(lock []byte) error {
	var l struct {
		Packages map[string]struct{ Link bool }
	}
	if err := json.Unmarshal(lock, &l); err != nil {
		return fmt.Errorf("package-lock.json: %w", err)
	}
	for name, p := range l.Packages {
		if p.Link {
			return fmt.Errorf("%w: %s of package-lock.json is a link into the workspace (run npm ci in the command)",
				ErrUnsupported, name)
		}
	}
	return nil
}

// Build runs the scripts of the packages, but not of the project: its files are in the workspace.
func (node) Build(o Order, p Place) []Step {
	npm, env := o.tool("npm").Path, []string{"npm_config_cache=" + filepath.Join(p.Scratch, "npm"),
		"npm_config_update_notifier=false"}
	ci := []string{npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"}
	var steps []Step
	if o.Store.Dir != "" {
		ci = append(ci, "--offline")
		for _, tarball := range o.Store.files(".tgz") {
			steps = append(steps, Step{Args: []string{npm, "cache", "add", tarball}, Env: env})
		}
	}
	return append(steps, Step{Args: ci, Env: env}, Step{Args: []string{npm, "rebuild"}, Env: env})
}

func (node) Activate(dir string) Activation {
	modules := filepath.Join(dir, "manifests/node_modules")
	return Activation{Path: []string{filepath.Join(modules, ".bin")}, Links: map[string]string{"node_modules": modules}}
}
