package remoteconfig

import (
	"strings"

	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
)

// homes are the directories of which the unit sees only the parts that the file names: ProtectHome=tmpfs.
var homes = []string{"/home", "/root"}

// hidden are the directories that the unit sees as empty: PrivateTmp= and ProtectHome=.
var hidden = []string{"/run/user", "/tmp", "/var/tmp"}

// checkVisible refuses a file that the unit cannot see.
func checkVisible(key, path string) error {
	if err := unitfile.CheckPath(path); err != nil {
		return settingsfile.Wrong(key, "%v", err)
	}
	for _, dir := range append(homes, hidden...) {
		if unitfile.Within(path, dir) {
			return settingsfile.Wrong(key,
				"%q lies below %s, which the unit does not see: put it elsewhere, such as below "+
					"/usr/local, /opt or /etc", path, dir)
		}
	}
	return nil
}

func (s *Settings) checkDirectories() error {
	if s.Hands != nil {
		return nil
	}
	if s.Directory == "" {
		return settingsfile.Wrong("directory",
			`is missing: name the directory that codex works in, as in directory = "/srv/app"`)
	}
	if err := checkDirectory("directory", s.Directory); err != nil {
		return err
	}
	if len(s.Writable) > maxItems {
		return settingsfile.Wrong("writable", "has more than %d", maxItems)
	}
	for _, dir := range s.Writable {
		if err := checkDirectory("writable", dir); err != nil {
			return err
		}
	}
	return nil
}

func checkDirectory(key, dir string) error {
	if err := unitfile.CheckPath(dir); err != nil {
		return settingsfile.Wrong(key, "%v", err)
	}
	if strings.Contains(dir, ":") {
		return settingsfile.Wrong(key, "%q has a colon, which a unit cannot pass on: rename it or link to it", dir)
	}
	for _, of := range hidden {
		if unitfile.Within(dir, of) {
			return settingsfile.Wrong(key,
				"%q lies below %s, which the unit has for itself: name a directory elsewhere", dir, of)
		}
	}
	for _, home := range homes {
		if dir == home {
			return settingsfile.Wrong(key, "%q holds the homes of users: name a directory in it", dir)
		}
	}
	if of := settingsfile.Ours(dir); of != "" {
		return settingsfile.Wrong(key,
			"%q is, or holds, a directory of the system or of codex-proxy (%s): name a directory of "+
				"the work alone", dir, of)
	}
	return nil
}

// InHome reports whether the unit sees the directory only because its drop-in names it.
func InHome(dir string) bool {
	for _, home := range homes {
		if unitfile.Within(dir, home) {
			return true
		}
	}
	return false
}

// Directories are all directories of the work. A remote with hands has none.
func (s *Settings) Directories() []string {
	if s.Hands != nil {
		return nil
	}
	return append([]string{s.Directory}, s.Writable...)
}
