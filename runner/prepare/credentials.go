package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/notify"
	"codex-proxy/runner/paths"
)

// Bounds of the credentials of one unit. LoadCredential= has the same sizes (systemd.exec(5)).
const (
	maxCredentials = 64
	allCredentials = 1 << 20 // bytes
)

// lendSecrets gives a session the secrets of the daemon.
func (s sessionUnit) lendSecrets() error {
	user, err := userOf(filepath.Join(s.SessionStates, s.id))
	if err != nil {
		return err
	}
	return s.lend(paths.SecretsDir(s.id), filepath.Join(s.dir(), paths.CredentialsName), paths.CredentialPrefix,
		user)
}

// Fetch prepares the start of the unit of a repository: Job, with the credentials that the daemon lends.
func (h Host) Fetch(ctx context.Context, key string, notifier *notify.Notifier) error {
	err := h.Fetched(key)
	if err != nil {
		return err
	}
	user, err := userOf(filepath.Join(h.StateLinks, filepath.Base(paths.RepositoryStates), key))
	if err == nil {
		err = os.MkdirAll(h.repository(key), 0o755)
	}
	if err == nil {
		err = h.lend(paths.CredentialsDir(key), filepath.Join(h.repository(key), paths.CredentialsName), "", user)
	}
	if err != nil {
		return fmt.Errorf("cannot give its credentials to the repository: %w", err)
	}
	return h.Job(ctx, paths.RepositoryDir(key), notifier)
}

// repository is the directory of the repository that only root can change.
func (h Host) repository(key string) string { return filepath.Join(h.Repositories, key) }

// Fetched removes the files that Fetch has made. No process of the unit is left then.
func (h Host) Fetched(key string) error {
	if err := paths.CheckKey(key); err != nil {
		return err
	}
	return os.RemoveAll(h.repository(key))
}

// lend copies the credentials that the daemon has put into a directory below its RuntimeDir into the new directory to,
// which user alone can read, with prefix before their names. BindReadOnlyPaths= of the unit shows it there.
// LoadCredential= would not do: systemd follows links in the directories of the daemon, as root.
func (h Host) lend(from, to, prefix string, user owner) error {
	files, err := h.credentials(from)
	if err == nil {
		err = os.Mkdir(to, 0o700)
	}
	for name, content := range files {
		if err == nil {
			err = writeFor(user, filepath.Join(to, prefix+name), content)
		}
	}
	if err == nil {
		err = giveDirectory(user, to)
	}
	return err
}

// credentials reads all files of a directory of the daemon; none if it is not there.
func (h Host) credentials(from string) (map[string][]byte, error) {
	runtime, err := openDir(h.RuntimeDir)
	if err != nil {
		return nil, err
	}
	defer runtime.Close()
	place, err := runtime.sub(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer place.Close()
	names, err := place.Readdirnames(maxCredentials + 1)
	if len(names) > maxCredentials {
		return nil, fmt.Errorf("%s has more than %d credentials", place.Name(), maxCredentials)
	}
	if len(names) == 0 {
		return nil, nil // the error is the end of the directory
	}
	if err != nil {
		return nil, err
	}
	return place.readAll(slices.Sorted(slices.Values(names)), allCredentials)
}

// readAll returns the contents of files of at most size bytes in all.
func (d dir) readAll(names []string, size int64) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, name := range names {
		content, err := d.read(name, size)
		if err != nil {
			return nil, err
		}
		size -= int64(len(content))
		all[name] = content
	}
	return all, nil
}

func writeFor(user owner, path string, content []byte) error {
	return errors.Join(os.WriteFile(path, content, 0o400), os.Chown(path, user.uid, user.gid))
}

func giveDirectory(user owner, path string) error {
	return errors.Join(os.Chmod(path, 0o500), os.Chown(path, user.uid,
		user.gid)) //nolint:gosec // a directory is entered
}
