package prepare

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
)

// maxAccounts bounds the lists of users and groups of the host, in bytes.
const maxAccounts = 16 << 20

// lendAccount makes the lists of users and groups that the session sees. The full name of its user is the one of the
// user whose session it is, for commits of git(1).
func (s sessionUnit) lendAccount(of uint32) error {
	user, err := userOf(filepath.Join(s.SessionStates, s.id))
	if err != nil {
		return err
	}
	return s.addAccounts(s.dir(), paths.SessionUser(s.id), s.fullName(of), user)
}

// fullName is the full name of a user by the list of the host, or else the name.
func (h Host) fullName(uid uint32) string {
	text, _ := os.ReadFile(filepath.Join(h.Etc, paths.Passwd)) // addAccount has its error
	account, _ := sandbox.FindAccount(text, int(uid))
	full, _, _ := strings.Cut(account.FullName, ",")
	return cmp.Or(full, account.Name, "session of codex-runner")
}

// addAccounts makes lists of users and groups in dir: those of the host, below a user with its home and shell
// (passwd(5), group(5)). Programs take the home from there, too, and systemd has / for that of every dynamic user. The
// first entry of a name or an ID counts.
func (h Host) addAccounts(dir, name, full string, user owner) error {
	passwd := fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", name, user.uid, user.gid, full, paths.Home, loginShell())
	group := fmt.Sprintf("%s:x:%d:\n", name, user.gid)
	if err := h.addAccount(dir, paths.Passwd, passwd); err != nil {
		return err
	}
	return h.addAccount(dir, paths.Group, group)
}

// addAccount writes the list of that name in Etc, below entry, to dir.
func (h Host) addAccount(dir, list, entry string) error {
	path := filepath.Join(h.Etc, list)
	all, err := os.ReadFile(path)
	if err = ignoreMissing(err); err != nil {
		return err
	}
	if len(all) > maxAccounts {
		return fmt.Errorf("%s has more than %d bytes: shorten it", path, maxAccounts)
	}
	all = bytes.Join([][]byte{[]byte(entry), all}, nil)
	return os.WriteFile(filepath.Join(dir, list), all, 0o644) //nolint:gosec // as passwd(5) is
}

// loginShell is the shell that `codex-runner shell` starts, too.
func loginShell() string {
	for _, path := range []string{"/bin/bash", "/bin/sh"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "/bin/sh"
}
