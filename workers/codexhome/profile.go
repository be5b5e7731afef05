package codexhome

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// profileName is the name of codex's permission profile for the tools of a worker (codex, "Permissions"). A codex that
// finds sandbox_mode in any of its files ignores profiles, and its sandbox then shows every file to tools.
const profileName = "worker"

// toolsHome is HOME of tools: codex's own is hidden from them, and a shell ends without a word there.
const toolsHome = "/tmp"

// shownToTools are the directories that tools may read in addition to the workspace. ":minimal" is codex's name for the
// programs and settings of the system, such as /usr and /etc.
var shownToTools = []string{":minimal", "/opt", "/srv", "/tmp"}

// profile are the settings that hide every login from the tools. codex's sandbox mounts only the paths of the profile;
// so the home is absent from it even when the workspace lies in the home.
func (p *preparation) profile(program, workspace string) settings {
	files := settings{workspace: "read"}
	for _, path := range slices.Concat(shownToTools, partsOf(program)) {
		files[path] = "read"
	}
	for _, dir := range p.worker.sandbox.writable(workspace) {
		files[dir] = "write"
	}
	for _, path := range p.secrets() {
		if shown(files, path) {
			files[path] = "deny"
		}
	}
	return settings{
		"default_permissions": profileName,
		"permissions": settings{profileName: settings{
			"filesystem": files, "network": settings{"enabled": p.worker.sandbox.network}}},
		"shell_environment_policy": settings{"inherit": "core", "set": settings{"HOME": toolsHome}},
		"features":                 settings{"shell_snapshot": false}, // it is a file in the home
	}
}

// shown reports whether a directory of the profile shows path. codex's sandbox does not start on a rule for a path in a
// denied directory.
func shown(files settings, path string) bool {
	shown := false
	for dir, access := range files {
		if dir == ":minimal" {
			dir = "/etc"
		}
		if within(path, dir) {
			if access == "deny" {
				return false
			}
			shown = true
		}
	}
	return shown
}

// confined is base with the profile, for a worker with tools.
func (p *preparation) confined(base settings) settings {
	if p.worker.sandbox != nil {
		merge(base, p.profile(p.codex.path, resolved(p.codex.dir)))
	}
	return base
}

// partsOf are the files of codex's package that run in its sandbox.
func partsOf(program string) []string {
	dir := filepath.Dir(filepath.Dir(program))
	return []string{program, filepath.Join(dir, "codex-path"), filepath.Join(dir, "codex-resources")}
}

// secrets are the directories that may hold a login, or a socket by which a tool would get one: the homes and the
// credentials of the workers, codex's own socket, and the settings and drop-ins, where a key may be. A directory comes
// before those in it. The Runtime is none, because codex runs its sandbox by the link in it.
func (h *Home) secrets() []string {
	return []string{
		"/var/lib/private", filepath.Dir(h.Dir), filepath.Dir(resolved(h.Dir)),
		filepath.Dir(filepath.Dir(h.File)), filepath.Dir(h.File),
		"/etc/systemd", "/run/credentials", "/run/codex-proxy",
		fmt.Sprintf("/tmp/codex-daemon-%d", os.Getuid()),
	}
}

// resolved is path without symbolic links, as codex sees its working directory.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

func within(path, dir string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
}

// lookFor prints its arguments that exist.
const lookFor = `for file; do if [ -e "$file" ]; then echo "$file"; fi; done`

// requireHidden runs a command in codex's sandbox, under the accepted settings, and fails if it sees a secret: other
// settings of the machine or of the operator may replace the profile. It fails, too, if the sandbox runs no command,
// because then codex 0.169 starts no thread under a profile.
func (p *preparation) requireHidden(ctx context.Context, written settings, keyFile string) error {
	args := []string{"sandbox", "--", "/bin/sh", "-c", lookFor, "sh", p.configFile()}
	if keyFile != "" {
		args = append(args, keyFile)
	}
	if mayConnect(written) { // without a network, codex's sandbox forbids connect(2)
		args = append(args, p.Runtime)
	}
	seen, talk, err := p.codex.run(ctx, args...)
	switch {
	case wasStopped(err):
		return err
	case err != nil:
		return p.worker.problem("mode", noSandbox(err.Error(), talk), sandboxHint)
	case seen == "":
		return nil
	}
	text := "codex's tools could reach " + strings.Fields(seen)[0] + ", and so the worker's login"
	return p.worker.problem(opener(p.worker), text, "name another workspace, take default_permissions and the "+
		"permissions that open it out of [codex], and sandbox_mode out of "+systemSettings+"/config.toml")
}

// mayConnect reports whether a profile has a network.
func mayConnect(written settings) bool {
	profiles, _ := written["permissions"].(settings)
	for _, value := range profiles {
		profile, _ := value.(settings)
		network, _ := profile["network"].(settings)
		if network["enabled"] == true {
			return true
		}
	}
	return false
}

// opener is the key of the worker file that may have opened the sandbox.
func opener(w *Worker) string {
	for _, key := range []string{"permissions", "default_permissions"} {
		if has(w.Extra, key) {
			return "codex." + key
		}
	}
	if w.Workspace != "" {
		return "workspace"
	}
	return "mode"
}
