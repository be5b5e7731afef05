package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/units/survey"
)

// rules follow the package, packaging/tmpfiles and the units.
func rules() []survey.Rule {
	both, own := []string{paths.User, paths.WorkerUser}, []string{paths.User}
	return []survey.Rule{
		{Path: paths.Program, Owner: "root", Group: "root", Most: 0o755, Readers: both},
		{Path: paths.Settings, Owner: "root", Group: "root", Most: 0o755, Readers: both},
		{Path: paths.Config, Owner: "root", Group: paths.User, Most: 0o644, Readers: own},
		{Path: paths.KeyFile, Owner: "root", Group: "root", Most: 0o600,
			Made: "codex-proxy keys add NAME; an empty file would let in all that reach a loopback address"},
		{Path: paths.WorkerSockets, Owner: "root", Group: "root", Most: 0o755, Readers: own},
		{Path: paths.RuntimeDir, Owner: paths.User, Group: paths.User, Most: 0o700, Optional: true},
	}
}

// namedKeys checks the file of API keys that config.toml names: the daemon reads it
// itself. The default file is a credential.
func (s *service) namedKeys() []checkup.Finding {
	reader, err := s.Account(paths.User)
	if s.config == nil || s.config.KeyFile == "" || s.config.KeyFile == paths.KeyFile || s.config.Keys.Shared() ||
		err != nil {
		return nil
	}
	file := filepath.Clean(s.config.KeyFile)
	const elsewhere = "move the file to " + paths.Settings + ", set api_keys to it, and systemctl reload codex-proxy"
	for _, hidden := range []string{"/home/", "/root/", "/run/user/"} {
		if strings.HasPrefix(file, hidden) {
			return checkup.Failure(file, "cannot be seen by the service (ProtectHome= in its unit)", elsewhere).Alone()
		}
	}
	for path := file; path != "/"; path = filepath.Dir(path) {
		info, err := os.Stat(s.Path(path))
		if errors.Is(err, fs.ErrPermission) {
			return []checkup.Finding{survey.Unprivileged(path, "see it")}
		}
		if err != nil {
			return checkup.Failure(path, "not checked: "+err.Error(), "stat "+path).Alone()
		}
		mode := info.Mode().Perm()
		switch {
		case path == file && !reach.Permits(info, reader, 4):
			return checkup.Failure(path, fmt.Sprintf("has mode %04o: %s cannot read it", mode, paths.User),
				fmt.Sprintf("chown root:%s %s && chmod 0640 %s", paths.User, path, path)).Alone()
		case path != file && !reach.Permits(info, reader, 1):
			return checkup.Failure(path, fmt.Sprintf("has mode %04o: %s cannot enter it, and reads no API keys there",
				mode, paths.User), elsewhere).Alone()
		}
	}
	return nil
}
