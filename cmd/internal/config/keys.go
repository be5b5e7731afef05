package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/proxy/auth"
)

// credential is the name under which the unit passes the API keys
// (LoadCredential= in codex-proxy.service, systemd.exec(5)).
const credential = "api-keys"

// Places is where an operator's commands find what is the daemon's.
type Places struct {
	KeyFile       string // empty: the file of the unit's credential
	ControlSocket string // empty: that of the unit
}

// LoadPlaces reads nothing but the file at path, as what it names may yet have to
// be made or mended. Without that file all is as it is by default.
func LoadPlaces(path string) (Places, error) {
	r, err := load(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return Places{KeyFile: r.APIKeys, ControlSocket: r.ControlSocket}, err
}

// readKeys reads the API keys from the file that the configuration names, or
// else from the unit's credential. Where there is neither, there are no keys yet.
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
	if err != nil {
		return nil, fmt.Errorf("cannot read the API keys: %w", err)
	}
	keys, err := auth.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("api_keys: %s: %w", file, err)
	}
	return keys, nil
}

func checkPrivate(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("cannot read the API keys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("api_keys: %s has mode %04o; others must not read it: chmod 0600 %s", file, info.Mode().Perm(), file)
	}
	return nil
}
