package environment

import "path/filepath"

// steps returns the commands that install the manifest. They copy files out of the cache of packages: a link would
// share them with it.
func (o Order) steps(p Place) [][]string {
	if len(o.Manifests) == 0 {
		return nil
	}
	args := []string{o.tool("micromamba").Path, "create", "--yes", "--no-rc", "--always-copy", "--root-prefix",
		filepath.Join(p.Scratch, "mamba"),
		"--prefix", filepath.Join(p.Dir, "conda"), "--file", o.Manifests[0].Path}
	if o.Store.Dir != "" {
		args = append(args, "--offline", "--override-channels", "--channel", "file://"+o.Store.Dir)
	}
	return [][]string{args}
}

// Activate returns the settings for a command that uses the environment in dir.
func Activate(dir string) Activation {
	dir = filepath.Join(dir, "conda")
	return Activation{Path: []string{filepath.Join(dir, "bin")}, Env: map[string]string{"CONDA_PREFIX": dir}}
}
