package repositories

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/workspace"
)

// Credential opens repositories to the fetches of users. No session, argument or log has it.
type Credential struct {
	URL   string   // the beginning of the URLs: whole directories
	Users []string // names of the users that fetch with it; empty means all
	// Files are files of the credential by the names of package workspace, GitCredentials and the others.
	Files map[string]string
}

// credential returns the credential of a URL for a user: of those that cover it, the one with the longest URL.
func (c Config) credential(url string, owner wire.Owner) Credential {
	var best Credential
	for _, one := range c.Credentials {
		may := len(one.Users) == 0 || owner.Name != "" && slices.Contains(one.Users, owner.Name)
		if may && workspace.Covers(one.URL, url) && len(one.URL) > len(best.URL) {
			best = one
		}
	}
	return best
}

// maxCredential bounds a file of a credential, in bytes.
const maxCredential = 1 << 20

// ReadSecret reads a file of a credential. One that every user of the host can read is an error.
func ReadSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("codex-runner cannot read %s: chgrp codex-runner %[1]s, chmod g+r %[1]s, and let the group enter its directory", path)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxCredential:
		return nil, fmt.Errorf("%s is no file of at most %d bytes: name one", path, maxCredential)
	case info.Mode().Perm()&0o007 != 0:
		return nil, fmt.Errorf("every user can read %s: chmod o= %[1]s", path)
	}
	secret, err := os.ReadFile(path)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("codex-runner cannot read %s: chgrp codex-runner %[1]s, chmod g+r %[1]s", path)
	}
	return secret, err
}
