package settingsfile

import (
	"strings"

	"codex-proxy/internal/unitfile"
)

// homes are the directories of which a unit sees only the parts that its file names: ProtectHome=tmpfs.
var homes = []string{"/home", "/root"}

// hidden are the directories that a unit sees as empty: PrivateTmp= and ProtectHome=.
var hidden = []string{"/run/user", "/tmp", "/var/tmp"}

// CheckVisible refuses a file that a unit with ProtectHome=tmpfs cannot see.
func CheckVisible(key, path string) error {
	if err := unitfile.CheckPath(path); err != nil {
		return Wrong(key, "%v", err)
	}
	for _, dir := range append(homes, hidden...) {
		if unitfile.Within(path, dir) {
			return Wrong(key,
				"%q lies below %s, which the unit does not see: put it elsewhere, such as below "+
					"/usr/local, /opt or /etc", path, dir)
		}
	}
	return nil
}

// CheckDirectory refuses a directory that such a unit has for itself, or that holds more than one work.
func CheckDirectory(key, dir string) error {
	if err := unitfile.CheckPath(dir); err != nil {
		return Wrong(key, "%v", err)
	}
	if strings.Contains(dir, ":") {
		return Wrong(key, "%q has a colon, which a unit cannot pass on: rename it or link to it", dir)
	}
	for _, of := range hidden {
		if unitfile.Within(dir, of) {
			return Wrong(key,
				"%q lies below %s, which the unit has for itself: name a directory elsewhere", dir, of)
		}
	}
	for _, home := range homes {
		if dir == home {
			return Wrong(key, "%q holds the homes of users: name a directory in it", dir)
		}
	}
	if of := Ours(dir); of != "" {
		return Wrong(key,
			"%q is, or holds, a directory of the system or of codex-proxy (%s): name a directory of "+
				"the work alone", dir, of)
	}
	return nil
}

// InHome reports whether such a unit sees the directory only because its drop-in names it.
func InHome(dir string) bool {
	for _, home := range homes {
		if unitfile.Within(dir, home) {
			return true
		}
	}
	return false
}
