package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/auth"
)

const (
	// serviceCredential is the name under which the unit passes the password of the database (LoadCredential= in
	// codex-proxy.service, systemd.exec(5)). Without the file it is "#none".
	serviceCredential = "database-service-password"
	noPassword        = "#none"
	// ownerCredential was the name in an earlier unit, for the password of the owner. systemd passes credentials at a
	// start alone: after an upgrade by a reload the process has this one, until the service restarts.
	ownerCredential = "database-password"
)

// Database is the table [database]: several hosts have the same API keys there.
type Database struct {
	Address    postgres.Address // zero: there is no database
	CA         string
	KeysMaxAge time.Duration // how long keys are used that the database has not confirmed
}

// rawDatabase is the table [database].
type rawDatabase struct {
	URL        string   `toml:"url"`
	CA         string   `toml:"ca"`
	KeysMaxAge duration `toml:"keys_max_age"`
}

func (r rawDatabase) validate() (Database, error) {
	if age := r.KeysMaxAge.Duration; age < time.Minute || age > 365*24*time.Hour {
		return Database{}, &misfit{"database.keys_max_age",
			fmt.Sprintf("database.keys_max_age = %q: must be between 1m and 8760h", age)}
	}
	if r.CA != "" && !filepath.IsAbs(r.CA) {
		return Database{}, &misfit{"database.ca", fmt.Sprintf("database.ca = %q: must be an absolute path", r.CA)}
	}
	if r.URL == "" {
		return Database{}, nil
	}
	address, err := postgres.ParseAddress(r.URL)
	if err != nil {
		return Database{}, &misfit{"database.url", "database.url: " + err.Error()}
	}
	return Database{Address: address, CA: r.CA, KeysMaxAge: r.KeysMaxAge.Duration}, nil
}

// LoadDatabase reads [database] alone, for the relay to it.
func LoadDatabase(path string, set []string) (Database, error) {
	r, err := load(path, set)
	if err != nil {
		return Database{}, err
	}
	database, err := r.Database.validate()
	if err != nil {
		return Database{}, fmt.Errorf("%s: %w", path, err)
	}
	return database, nil
}

// Server returns how this process reaches the database: in a unit as the role of the service, with the password of its
// credential, and else as the owner, with the password in the file. relay is as in postgres.Server.
func (d Database) Server(relay string) (postgres.Server, error) {
	file, address := paths.DatabasePassword, d.Address
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && !address.IsZero() {
		file, address = passwordOf(dir, address)
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return postgres.Server{}, fmt.Errorf("cannot read the password of the database: %w", err)
	}
	password := strings.TrimSpace(string(text))
	if password == noPassword {
		password = ""
	}
	return postgres.Server{Address: address, CA: d.CA, Password: password, Relay: relay}, nil
}

// passwordOf returns the file of the password in the directory of the unit's credentials, and the role it belongs to.
func passwordOf(dir string, address postgres.Address) (string, postgres.Address) {
	service, owner := filepath.Join(dir, serviceCredential), filepath.Join(dir, ownerCredential)
	if _, err := os.Stat(service); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(owner); err == nil {
			return owner, address
		}
	}
	return service, address.As(postgres.ServiceRole(address.User()))
}

// KeyCache is the file with the last known keys of the database.
func KeyCache() string {
	dir := os.Getenv("STATE_DIRECTORY")
	if dir == "" {
		dir = paths.StateDir
	}
	return filepath.Join(dir, paths.KeyCacheName)
}

// readCache reads the keys that this host has had last from the database. Its time is when the database has had
// them. Without the file the host has had none: the keys of its own file hold until then. If there are none, or a file
// cannot be used, the keys are without a time: the database has them.
func readCache(file, own string, maxAge time.Duration) *auth.Keys {
	keys, at := &auth.Keys{}, time.Time{}
	text, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	usable, refused := auth.Usable(string(text))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if before, err := readKeys(own); err == nil && !before.Empty() {
			keys, at, maxAge = before, time.Now(), math.MaxInt64
		}
	case err == nil && statErr == nil && keys.Replace(usable) == nil && (!keys.Empty() || len(refused) == 0):
		at = info.ModTime()
	}
	keys.Confirm(at, maxAge)
	return keys
}
