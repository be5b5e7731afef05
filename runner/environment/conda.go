package environment

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
)

// conda installs environment.yml with micromamba.
type conda struct{}

func (conda) Name() string { return "conda" }

func (conda) Detect(workspace fs.FS) bool {
	return has(workspace, "environment.yml") || has(workspace, "environment.yaml")
}

func (conda) Key(ctx context.Context, host Host, workspace fs.FS) ([]Manifest, []Tool, error) {
	files, err := manifests(workspace, "environment.yml", "environment.yaml")
	if err == nil && len(files) > 1 {
		err = fmt.Errorf("the workspace has environment.yml and environment.yaml: remove one of them")
	}
	if err != nil {
		return nil, nil, err
	}
	program, err := host.Tool(ctx, "micromamba")
	return files, []Tool{program}, err
}

// Build copies files out of the cache of packages: a link would share them with it.
func (conda) Build(o Order, p Place) []Step {
	args := []string{o.tool("micromamba").Path, "create", "--yes", "--no-rc", "--always-copy", "--root-prefix",
		filepath.Join(p.Scratch, "mamba"),
		"--prefix", filepath.Join(p.Dir, "conda"), "--file", o.Manifests[0].Path}
	if o.Store.Dir != "" {
		args = append(args, "--offline", "--override-channels", "--channel", "file://"+o.Store.Dir)
	}
	return []Step{{Args: args}}
}

func (conda) Activate(dir string) Activation {
	dir = filepath.Join(dir, "conda")
	return Activation{Path: []string{filepath.Join(dir, "bin")}, Env: map[string]string{"CONDA_PREFIX": dir}}
}
