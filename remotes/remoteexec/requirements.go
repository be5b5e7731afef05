package remoteexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"codex-proxy/remotes/remoteconfig"
)

// requirementsFile has the requests that codex refuses to all clients. It has one place on a machine.
const requirementsFile = "/etc/codex/requirements.toml"

// allowedSandboxes is the setting of codex's requirements by which a client cannot ask for another sandbox.
const allowedSandboxes = "allowed_sandbox_modes"

// requirements joins the machine's requirements in file, if any, and the remote's requirements: a client may ask for
// the sandbox of the remote or for less.
func requirements(file string, s *remoteconfig.Settings) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot read codex's requirements: %w", err)
	}
	all := map[string]any{}
	if err := toml.Unmarshal(text, &all); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	ours := []any{string(remoteconfig.ReadOnly)}
	if s.Hands != nil {
		return handsRequirements(file, all)
	}
	if s.Sandbox == remoteconfig.WorkspaceWrite {
		ours = append(ours, string(remoteconfig.WorkspaceWrite))
	}
	if machine, has := all[allowedSandboxes].([]any); has {
		ours = slices.DeleteFunc(ours, func(mode any) bool { return !slices.Contains(machine, mode) })
		if !slices.Contains(ours, any(string(s.Sandbox))) {
			return "", s.Fault("sandbox", "%s does not allow %q: choose another one there or here", file, s.Sandbox)
		}
	}
	all[allowedSandboxes] = ours
	all["allow_remote_control"] = false
	merged, err := toml.Marshal(all)
	return string(merged), err
}

// fullAccess is the sandbox of a codex with hands, which are a sandbox themselves.
const fullAccess = "danger-full-access"

// handsRequirements lets a client ask for no sandbox: codex's own does not work in the hands. codex wants "read-only"
// to be allowed.
func handsRequirements(file string, all map[string]any) (string, error) {
	if machine, has := all[allowedSandboxes].([]any); has && !slices.Contains(machine, any(fullAccess)) {
		return "", fmt.Errorf("%s does not allow %q, which codex needs for [hands], where the session is the sandbox: "+
			"allow it there, or use a remote without [hands]", file, fullAccess)
	}
	all[allowedSandboxes] = []any{string(remoteconfig.ReadOnly), fullAccess}
	all["allow_remote_control"] = false
	merged, err := toml.Marshal(all)
	return string(merged), err
}
