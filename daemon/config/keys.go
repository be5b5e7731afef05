package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/auth"
	"codex-proxy/workers/accounts"
)

// credential is the name under which the unit passes the API keys
// (LoadCredential= in codex-proxy.service, systemd.exec(5)).
const credential = "api-keys"

// DefaultKeyFile is the file that the unit passes as its credential.
const DefaultKeyFile = paths.KeyFile

// Places are the daemon's files that an operator's commands use.
type Places struct {
	KeyFile       string // empty: the file of the unit's credential
	OwnKeyFile    string // the key file of this host, also if a database has the keys
	ControlSocket string // empty: in the unit's runtime directory
	Pages         Pages
	Workers       []string        // nil: none is configured, or they cannot be listed
	Policy        accounts.Policy // off if the settings have a fault
	Codex         copies.Policy   // copies.Pinned if the setting has a fault
	Database      Database        // zero if the setting has a fault
}

// Socket returns the path of the control socket on which the daemon listens.
func (p Places) Socket() string { return paths.FindControlSocket("/", p.ControlSocket) }

// LoadPlaces reads only the file at path: the files that it names may not exist yet
// or be faulty. Without the file the defaults hold.
func LoadPlaces(path string) (Places, error) {
	r, err := load(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		r.Codex, err = string(copies.Follow), nil
	}
	codex, fault := copies.ParsePolicy(r.Codex)
	if fault != nil {
		codex = copies.Pinned
	}
	places := Places{
		KeyFile: r.APIKeys, OwnKeyFile: cmp.Or(r.APIKeys, paths.KeyFile), ControlSocket: r.ControlSocket,
		Pages: r.pages, Codex: codex,
		Policy: accounts.Policy{Rotation: accounts.Off},
	}
	if err == nil && r.Database.URL != "" {
		if places.Database, err = r.Database.validate(); err == nil {
			places.KeyFile = KeyCache()
		}
	}
	dir := filepath.Join(filepath.Dir(path), "workers")
	if workers, fault := r.workers(dir); fault == nil {
		places.Workers = workers
		if policy, fault := r.policy(workers, dir); fault == nil {
			places.Policy = policy
		}
	}
	return places, err
}

// keyFile is the file in the configuration, or the copy of the keys in the database; empty if the unit passes that file
// as its credential: only root can read the file itself.
func (r raw) keyFile() string {
	if r.Database.URL != "" {
		return KeyCache()
	}
	return r.ownKeyFile()
}

func (r raw) ownKeyFile() string {
	if r.APIKeys == DefaultKeyFile && os.Getenv("CREDENTIALS_DIRECTORY") != "" {
		return ""
	}
	return r.APIKeys
}

// keys reads the API keys.
func (r raw) keys(database Database) (*auth.Keys, error) {
	if !database.Address.IsZero() {
		return readCache(r.keyFile(), r.ownKeyFile(), database.KeysMaxAge), nil
	}
	return readKeys(r.keyFile())
}

// readKeys reads the API keys from the file that the configuration names, or
// else from the unit's credential. Without either there are no keys yet.
func readKeys(file string) (*auth.Keys, error) {
	if file == "" {
		dir := os.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return &auth.Keys{}, nil
		}
		file = filepath.Join(dir, credential)
	} else if err := checkPrivate(file); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("api_keys: cannot read the API keys: %w; chown root:codex-proxy %s && chmod 0640 %s",
			err, file, file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the API keys: %w", err)
	}
	keys, err := auth.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("api_keys: %s: %w", file, err)
	}
	return keys, nil
}

// CheckKeys checks the API keys for the configuration at path. If it names no key file,
// CheckKeys reads the file beside it that codex-proxy.service passes as a credential. A
// missing file, or one that the caller may not read, is no error; but without a key no
// page may use the API.
func (c *Config) CheckKeys(path string) error {
	if c.KeyFile != "" || os.Getenv("CREDENTIALS_DIRECTORY") != "" {
		return c.Pages.Check(c.Keys)
	}
	file := filepath.Join(filepath.Dir(path), credential)
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot read the API keys: %w", err)
	}
	keys, err := auth.Parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return c.Pages.Check(keys)
}

func checkPrivate(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("cannot read the API keys: %w", err)
	}
	// The group may read: the daemon reads a file of root's that way.
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return fmt.Errorf("api_keys: %s has mode %04o; others must not read it, nor its group write it: chmod 0640 %s",
			file, mode, file)
	}
	return nil
}
