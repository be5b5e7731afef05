package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"codex-proxy/units"
)

// MaxFiles bounds the remotes of a machine.
const MaxFiles = 256

// Names returns the names of all remotes with a file in dir, sorted. A directory that does not exist has none.
// Files whose name no remote can have do not count: a unit cannot have it either.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the remotes: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".toml")
		if ok && units.ValidRemoteName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > MaxFiles {
		return names[:MaxFiles], fmt.Errorf("%s has more than %d remotes: %s and those after it are left out",
			dir, MaxFiles, names[MaxFiles])
	}
	return names, nil
}
