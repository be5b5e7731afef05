package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/runner/paths"
)

// Toolchain is one that a sandbox is to show.
type Toolchain struct {
	Dir  string `json:"dir"`            // on the host
	Seen string `json:"seen"`           // in the sandbox
	User bool   `json:"user,omitempty"` // of the user of the session, and not of the settings
	// Fault is the reason why the sandbox does not show it, with the remedy, or "".
	Fault string `json:"fault,omitempty"`
}

// Hidden reports whether a sandbox sees the directory only if it is mounted there.
func (t Toolchain) Hidden() bool { return t.Seen != t.Dir }

// toolchain is the toolchain in a directory.
func toolchain(dir string, user bool) Toolchain {
	t := Toolchain{Dir: dir, Seen: dir, User: user}
	if user || beneath(dir, hidden) != "" {
		t.Seen = paths.Toolchains + dir
	}
	return t
}

// Wanted returns the toolchains of the settings.
func (s Settings) Wanted() (all []Toolchain) {
	for _, dir := range s.Toolchains {
		all = append(all, toolchain(dir, false))
	}
	return all
}

const pyenvVersions = ".pyenv/versions"

// ofUser are the directories below a home in which the usual installers put the programs of a user, and nothing else.
// ~/.cargo has credentials beside its bin.
var ofUser = []string{
	".local/bin", ".cargo/bin", ".rustup", "go/bin", ".nvm/versions", pyenvVersions, ".sdkman/candidates", ".bun/bin",
	".deno/bin",
}

// OfUser returns the toolchains that a user with this home may have, less those in others.
func OfUser(home string, others []Toolchain) (all []Toolchain) {
	for _, name := range ofUser {
		dir := filepath.Join(home, name)
		covered := false
		for _, other := range others {
			covered = covered || within(dir, other.Dir) || within(other.Dir, dir)
		}
		if !covered {
			all = append(all, toolchain(dir, true))
		}
	}
	return all
}

// ListFile is the file of paths.Toolchains with the list of toolchains.
const ListFile = ".list.json"

// maxList bounds a list, in bytes.
const maxList = 1 << 20

// WriteList writes the list into a directory.
func WriteList(dir string, all []Toolchain) error {
	text, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ListFile), text, 0o644) //nolint:gosec // sessions read it
	}
	return err
}

// ReadList reads the list of a sandbox: none if nothing was written there.
func ReadList(dir string) (all []Toolchain, err error) {
	file, err := os.Open(filepath.Join(dir, ListFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxList))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		err = fmt.Errorf("cannot read the list of toolchains: %w", err)
	}
	return all, err
}
