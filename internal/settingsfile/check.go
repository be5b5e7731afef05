package settingsfile

import (
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/internal/unitfile"
)

// longestDescription bounds a Description=, in bytes.
const longestDescription = 256

// CheckDescription is the fault of the key description, whose text Description= has to hold.
func CheckDescription(text string) error {
	switch err := unitfile.Printable(text); {
	case err != nil:
		return Wrong("description", "%v", err)
	case len(text) > longestDescription:
		return Wrong("description", "is longer than %d bytes", longestDescription)
	case strings.TrimSpace(text) != text || strings.HasSuffix(text, `\`):
		return Wrong("description", "%q begins or ends with a space, or ends with a backslash: remove that", text)
	}
	return nil
}

// ours are the directories of the system and of codex-proxy.
var ours = []string{paths.Settings, paths.StateDir, paths.WorkerHomes, paths.DependencyStates, paths.RemoteHomes,
	"/var/lib/private", paths.WorkerSockets, paths.RemoteSockets, paths.RemoteRuntimeDirs, paths.LoginsDir,
	paths.DependencyRuntimeDirs, "/run/codex-worker", "/run/credentials", "/run/systemd", "/run/dbus", "/etc/systemd",
	"/usr", "/boot", "/proc", "/sys", "/dev"}

// Ours is the directory of the system or of codex-proxy that dir is, holds or lies in, which no file may name. Empty:
// dir has to do with none.
func Ours(dir string) string {
	for _, of := range ours {
		if unitfile.Within(dir, of) || unitfile.Within(of, dir) {
			return of
		}
	}
	return ""
}
