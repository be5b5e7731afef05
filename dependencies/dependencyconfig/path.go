package dependencyconfig

import (
	"cmp"

	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
)

// hidden are the directories that the unit sees as empty: ProtectHome= and PrivateTmp=.
var hidden = []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"}

// checkVisible refuses a path that the unit cannot see.
func checkVisible(key, path string) error {
	for _, dir := range hidden {
		if unitfile.Within(path, dir) {
			return settingsfile.Wrong(key,
				"%q lies below %s, which the unit does not see: put it elsewhere, such as below "+
					"/usr/local, /opt or /srv", path, dir)
		}
	}
	return nil
}

// checkPath accepts the paths that systemd and a human read alike.
func checkPath(key, path string) error {
	if err := unitfile.CheckPath(path); err != nil {
		return settingsfile.Wrong(key, "%v", err)
	}
	return nil
}

func (s *Settings) checkDirectories() error {
	if len(s.Directories) > maxItems {
		return settingsfile.Wrong("directories", "has more than %d", maxItems)
	}
	for _, dir := range s.Directories {
		if err := cmp.Or(checkPath("directories", dir), checkVisible("directories", dir)); err != nil {
			return err
		}
		if of := settingsfile.Ours(dir); of != "" {
			return settingsfile.Wrong("directories",
				"%q is, or holds, a directory of the system or of codex-proxy (%s): name "+
					"a directory of the dependency's data alone", dir, of)
		}
	}
	return nil
}

func (s *Settings) checkLock() error {
	return cmp.Or(checkPath("lock", s.Lock), checkVisible("lock", s.Lock))
}
