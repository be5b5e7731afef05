package dependency

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"codex-proxy/units"
)

// MaxFiles bounds the dependencies of a machine.
const MaxFiles = 256

// Names returns the names of all dependencies with a file in dir, sorted. A directory that does not exist has none.
// Files whose name no dependency can have do not count: a unit cannot have it either.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the dependencies: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".toml")
		if ok && units.ValidDependencyName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > MaxFiles {
		return names[:MaxFiles], fmt.Errorf("%s has more than %d dependencies: %s and those after it are left out",
			dir, MaxFiles, names[MaxFiles])
	}
	return names, nil
}
