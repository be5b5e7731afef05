package dependency

import (
	"cmp"
	"path/filepath"
	"strings"

	"codex-proxy/cmd/internal/paths"
)

// hidden are the directories that the unit sees as empty: ProtectHome= and PrivateTmp=.
var hidden = []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"}

// checkVisible refuses a path that the unit cannot see.
func checkVisible(key, path string) error {
	for _, dir := range hidden {
		if within(path, dir) {
			return wrong(key, "%q lies below %s, which the unit does not see: put it elsewhere, such as below "+
				"/usr/local, /opt or /srv", path, dir)
		}
	}
	return nil
}

// checkPath accepts the paths that systemd and a human read alike.
func checkPath(key, path string) error {
	switch err := printable(path); {
	case err != nil:
		return wrong(key, "%v", err)
	case !filepath.IsAbs(path):
		return wrong(key, "%q is not an absolute path", path)
	case filepath.Clean(path) != path:
		return wrong(key, "%q is not the shortest form of the path: write %q", path, filepath.Clean(path))
	case strings.ContainsAny(path, "\"\\\t") || strings.HasSuffix(path, " "):
		return wrong(key, "%q has a quote, backslash or tab, or ends with a space, which a unit cannot pass on: "+
			"rename it or link to it", path)
	case len(path) > 1024:
		return wrong(key, "the path is longer than 1024 bytes")
	}
	return nil
}

// ours are the directories that no dependency writes to.
var ours = []string{paths.Settings, paths.StateDir, paths.WorkerHomes, paths.DependencyStates, "/var/lib/private",
	paths.WorkerSockets, paths.DependencyRuntimeDirs, "/run/codex-worker", "/run/credentials", "/run/systemd",
	"/etc/systemd", "/usr", "/boot", "/proc", "/sys", "/dev"}

func (s *Settings) checkDirectories() error {
	if len(s.Directories) > maxItems {
		return wrong("directories", "has more than %d", maxItems)
	}
	for _, dir := range s.Directories {
		if err := cmp.Or(checkPath("directories", dir), checkVisible("directories", dir)); err != nil {
			return err
		}
		for _, of := range ours {
			if within(dir, of) || within(of, dir) {
				return wrong("directories", "%q is, or holds, a directory of the system or of codex-proxy (%s): name "+
					"a directory of the dependency's data alone", dir, of)
			}
		}
	}
	return nil
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func (s *Settings) checkLock() error {
	return cmp.Or(checkPath("lock", s.Lock), checkVisible("lock", s.Lock))
}
