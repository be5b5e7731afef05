package here

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
)

// NoDaemon is the text of codex's configuration for the machine by which codex starts no daemon of its own, and waits
// longer for the unit.
const NoDaemon = `# Made by codex-proxy here enable, and removed by the last codex-proxy here disable.
[features]
daemon_auto_start = false
`

// ConfigState is the state of codex's configuration for the machine.
type ConfigState int

// The states: there is no file; the file is NoDaemon; it is another one with the setting; it lacks the setting.
const (
	ConfigAbsent ConfigState = iota
	ConfigOurs
	ConfigHas
	ConfigLacks
)

// ConfigOf reads the file.
func ConfigOf(file string) (ConfigState, error) {
	text, err := read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ConfigAbsent, nil
	}
	if err != nil {
		return ConfigLacks, fmt.Errorf("cannot read %s: %w", file, err)
	}
	if bytes.Equal(text, []byte(NoDaemon)) {
		return ConfigOurs, nil
	}
	var config struct {
		Features map[string]any `toml:"features"`
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return ConfigLacks, fmt.Errorf("%s: %w", file, err)
	}
	if config.Features["daemon_auto_start"] == false {
		return ConfigHas, nil
	}
	return ConfigLacks, nil
}

// WriteConfig writes a missing file.
func WriteConfig(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // all users read it
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // all users read it
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(NoDaemon)
	return errors.Join(err, f.Chmod(0o644), f.Close()) // whatever the umask
}

// RemoveConfig removes the file if it is NoDaemon.
func RemoveConfig(file string) error {
	if state, err := ConfigOf(file); err != nil || state != ConfigOurs {
		return nil //nolint:nilerr // the file is not ours
	}
	return os.Remove(file)
}
