package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pelletier/go-toml/v2"
)

// Read reads [sandbox] of the file at path, and none of the other tables: root reads the file itself, so that the
// daemon does not decide which directories root shows. A file that is not there has no toolchains.
func Read(path string) (Settings, error) {
	var file struct {
		Sandbox Settings `toml:"sandbox"`
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Settings{}, nil
	}
	if err == nil {
		err = toml.Unmarshal(text, &file)
	}
	if err == nil {
		err = file.Sandbox.Check()
	}
	if err != nil {
		return Settings{}, fmt.Errorf("cannot read %s: %w (codex-runner doctor has the line)", path, err)
	}
	return file.Sandbox, nil
}
