package dependenciescheck

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/reach"
	"codex-proxy/units"
)

// unitPath is the PATH of a unit that sets none (systemd.exec(5), $PATH).
const unitPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

// Faults returns the missing conditions for a start on this machine, each with its remedy.
func Faults(s *dependencyconfig.Settings) (faults []string) {
	add := func(key string, err error) {
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", key, err))
		}
	}
	as, err := accountOf(s)
	add("user", err)
	add("command", commandFault(s, s.Command, as))
	if len(s.Prepare) > 0 {
		add("prepare", commandFault(s, s.Prepare, as))
	}
	for _, dir := range s.Directories {
		add("directories", directoryFault(dir, as))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		add("credentials."+name, fileFault(s.Credentials[name]))
	}
	if s.Probe.CA != "" {
		add("probe.ca", fileFault(s.Probe.CA))
	}
	return faults
}

// accountOf is the user that the dependency runs as; for a user of its own, one that owns nothing yet.
func accountOf(s *dependencyconfig.Settings) (reach.Account, error) {
	nobody := reach.Account{UID: units.NoUID, GID: units.NoUID}
	if s.User == "" {
		return nobody, nil
	}
	account, err := reach.Lookup(s.User)
	if err != nil {
		return nobody, fmt.Errorf("there is no user %q: install the program's package, or leave user empty for one "+
			"of its own", s.User)
	}
	return account, nil
}

func commandFault(s *dependencyconfig.Settings, command []string, as reach.Account) error {
	path, err := findProgram(command[0], s.Environment["PATH"])
	if err == nil {
		err = Runnable(path)
	}
	if err == nil {
		err = reach.Check(as, path, 1)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such program: name the path of the one to run")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}

// findProgram returns the path of a program that may have no directory.
func findProgram(program, searchPath string) (string, error) {
	if filepath.IsAbs(program) {
		return program, nil
	}
	if searchPath == "" {
		searchPath = unitPath
	}
	for _, dir := range filepath.SplitList(searchPath) {
		if path := filepath.Join(dir, program); Runnable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no such program in %s: install it, or name its path", searchPath)
}

func directoryFault(dir string, as reach.Account) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err == nil && as.UID != units.NoUID {
		err = reach.Check(as, dir, 2)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such directory: make it, for the user that the dependency runs as")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, reach.Reason(err))
	}
	return nil
}

func fileFault(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such file: make it")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, reach.Reason(err))
	}
	return nil
}
