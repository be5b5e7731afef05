// Package sharing decides which accounts share one codex, and reads from the units which ones do: one worker serves the
// accounts of others, and their units do not run then. An account without a login apart keeps a codex of its own.
package sharing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
)

// Most bounds the accounts of one codex, which has two connections for each.
const Most = 32

// Hosts has, for each account that the codex of another worker serves, the name of that worker.
type Hosts map[string]string

// Plan returns the hosts of the accounts with a login apart. Accounts share a codex if their files have the same
// settings. Of each such set, the first ones serve the others: as many as processes, and more if one would have too
// many accounts. Workers that run are first, as another codex would have to start in the place of theirs; then those
// with the first names. dir has the files; one with a fault shares nothing.
func Plan(dir string, names []string, processes int, runs func(name string) bool) Hosts {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	running := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !runs(name) })
	names = slices.Concat(running, slices.DeleteFunc(names, runs))
	hosts := Hosts{}
	for _, alike := range alike(dir, names) {
		serving := max(processes, (len(alike)+Most-1)/Most)
		for i, name := range alike {
			if i >= serving {
				hosts[name] = alike[i%serving]
			}
		}
	}
	return hosts
}

// alike has the names of accounts with the same settings, in their order.
func alike(dir string, names []string) map[string][]string {
	sets := map[string][]string{}
	for _, name := range names {
		file := filepath.Join(dir, name+".toml")
		w, err := codexhome.Load(file)
		if err != nil || !w.LoginApart() || w.Hands != nil { // the sessions of hands are of one account
			continue
		}
		if text, err := canonical(file); err == nil {
			sets[text] = append(sets[text], name)
		}
	}
	return sets
}

// canonical is the same for files with the same settings.
func canonical(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return "", err
	}
	sorted, err := json.Marshal(tree)
	return string(sorted), err
}

// Configured returns the hosts by the settings of the service: the file, and the files of workers in dir. It is nil if
// the settings have no accounts share a codex, or are refused by the service. runs reports whether a worker runs, see
// In.
func Configured(file, dir string, runs func(name string) bool) (Hosts, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var settings struct {
		Workers  []string `toml:"workers"`
		Accounts struct {
			Warm      any `toml:"warm"`
			Processes any `toml:"processes"`
		} `toml:"accounts"`
	}
	if err := toml.Unmarshal(text, &settings); err != nil {
		return nil, fmt.Errorf("%s: no accounts share a codex: %w", file, err)
	}
	processes, isNumber := settings.Accounts.Processes.(int64)
	_, standby := settings.Accounts.Warm.(int64)
	if !isNumber || processes < 1 || standby { // all; another value is a fault of the service's settings
		return nil, nil
	}
	if len(settings.Workers) == 0 {
		if settings.Workers, err = inDirectory(dir); err != nil {
			return nil, err
		}
	}
	return Plan(dir, settings.Workers, int(min(processes, Most)), runs), nil
}

// In reports whether a worker runs, by its directory in one of runtimes, which systemd makes and removes: for the
// worker, or for its broker, which goes on while the worker waits for its restart.
func In(runtimes ...string) (runs func(name string) bool) {
	return func(name string) bool {
		return slices.ContainsFunc(runtimes, func(runtime string) bool {
			_, err := os.Lstat(filepath.Join(runtime, name))
			return err == nil
		})
	}
}

// inDirectory are the workers with a file.
func inDirectory(dir string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".toml"); units.ValidName(name) == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// Served returns the accounts that the worker serves beside its own, in order.
func (h Hosts) Served(worker string) (names []string) {
	for name, host := range h {
		if host == worker {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
