package dependenciescheck

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/internal/reach"
)

// hidden are the directories that no unit of a dependency sees (ProtectHome=).
var hidden = []string{"/home", "/root", "/run/user"}

// ErrHidden means that the unit does not see the program.
var ErrHidden = errors.New("the unit cannot see /home and /root (ProtectHome=yes); install it elsewhere, " +
	"such as in /usr/local/bin")

// Runnable is nil for an executable file that a unit can see.
func Runnable(path string) error {
	if !filepath.IsAbs(path) {
		return fs.ErrNotExist
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return reach.Reason(err)
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return reach.Reason(err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return errors.New("it is not executable")
	}
	for _, dir := range hidden {
		if strings.HasPrefix(target, dir+"/") {
			return ErrHidden
		}
	}
	return nil
}
