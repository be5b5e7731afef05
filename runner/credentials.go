package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
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
func (s Repositories) credential(url string, owner wire.Owner) Credential {
	var best Credential
	for _, c := range s.Credentials {
		may := len(c.Users) == 0 || owner.Name != "" && slices.Contains(c.Users, owner.Name)
		if may && workspace.Covers(c.URL, url) && len(c.URL) > len(best.URL) {
			best = c
		}
	}
	return best
}

// lend puts a credential where root finds it for the unit of the repository.
func (r *Runner) lend(key string, c Credential) error {
	dir := filepath.Join(r.RuntimeDir, filepath.Base(paths.RepositoryCredentials), key)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	for name, file := range c.Files {
		if err == nil {
			err = copySecret(filepath.Join(dir, name), file)
		}
	}
	if err != nil {
		r.takeBack(key)
		return fmt.Errorf("cannot prepare the credential of a repository: %w", err)
	}
	return nil
}

// takeBack removes the files of lend. A unit that runs has a copy.
func (r *Runner) takeBack(key string) {
	os.RemoveAll(filepath.Join(r.RuntimeDir, filepath.Base(paths.RepositoryCredentials), key))
}

func copySecret(to, from string) error {
	secret, err := ReadSecret(from)
	if err == nil {
		err = os.WriteFile(to, secret, 0o600)
	}
	return err
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
