package codexhome

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"

	"codex-proxy/internal/strict"
)

// sandbox has the rights that the operator gives the tools of a worker beyond reading: codex's sandbox_mode and its
// table, which codex itself does not accept together with a permission profile.
type sandbox struct {
	write   bool
	roots   []string // writable directories in addition to the workspace
	tmp     bool     // whether /tmp is writable
	network bool
}

// sandboxKeys are the settings of the [codex] table that become part of the profile.
var sandboxKeys = []string{"sandbox_mode", "sandbox_workspace_write"}

// rawSandbox is codex's table sandbox_workspace_write. The unit sets no TMPDIR.
type rawSandbox struct {
	WritableRoots   []string `toml:"writable_roots"`
	NetworkAccess   bool     `toml:"network_access"`
	ExcludeTmpdir   bool     `toml:"exclude_tmpdir_env_var"`
	ExcludeSlashTmp bool     `toml:"exclude_slash_tmp"`
}

func (s *sandbox) writable(workspace string) []string {
	if !s.write {
		return nil
	}
	dirs := append([]string{workspace}, s.roots...)
	if s.tmp {
		dirs = append(dirs, "/tmp")
	}
	return dirs
}

// setSandbox reads sandboxKeys, for a worker with tools. A native one has some that are no commands.
func (w *Worker) setSandbox() error {
	if w.Hands != nil || w.Mode != Native && !w.RunsCommands() { // a session is the sandbox of hands
		return nil
	}
	w.sandbox = &sandbox{}
	switch mode := w.Extra["sandbox_mode"]; mode {
	case nil, "read-only":
		return nil
	case "workspace-write":
		return w.setWritable()
	case "danger-full-access":
		return w.problem("codex.sandbox_mode",
			`sandbox_mode = "danger-full-access" would show the worker's login to the model's tools`,
			`choose "read-only" or "workspace-write"; [codex.permissions.worker.filesystem] opens more directories`)
	default:
		return w.problem("codex.sandbox_mode", fmt.Sprintf("unknown sandbox_mode %#v", mode),
			`choose "read-only" or "workspace-write"`)
	}
}

func (w *Worker) setWritable() error {
	var raw rawSandbox
	if table, ok := w.Extra["sandbox_workspace_write"]; ok {
		doc, err := toml.Marshal(table)
		if err == nil {
			err = strict.Decode(w.File, doc, &raw)
		}
		if err != nil {
			text := err.Error()
			if e := new(strict.Error); errors.As(err, &e) {
				text = e.Text
			}
			return w.problem("codex.sandbox_workspace_write", "sandbox_workspace_write: "+text, "correct or remove it")
		}
	}
	w.sandbox = &sandbox{write: true, roots: raw.WritableRoots, tmp: !raw.ExcludeSlashTmp, network: raw.NetworkAccess}
	return nil
}

// extra is the [codex] table without the settings that the profile replaces.
func (w *Worker) extra() settings {
	c := clone(w.Extra)
	if w.sandbox != nil {
		for _, key := range sandboxKeys {
			delete(c, key)
		}
	}
	return c
}
