// Package prepare does the work for a session that needs root, before its main process starts and after its last
// process has ended: the commands of ExecStartPre=+ and ExecStopPost=+ of codex-session@.service. The files of the
// daemon and the workspace are untrusted input here: IDs and numbers are checked, and no link in them is followed.
package prepare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codex-proxy/runner/paths"
)

// Host has the directories of the machine, so that tests have their own. Nothing of it changes after its making; one
// process at a time works on a session.
type Host struct {
	StateDir      string // paths.StateDir
	RuntimeDir    string // paths.RuntimeDir
	Sessions      string // paths.Sessions
	Repositories  string // paths.Repositories
	SessionStates string // paths.SessionStates
	Workspaces    string // paths.Workspaces
	PrivateStates string // paths.PrivateStates
	StateLinks    string // paths.StateLinks
	SystemControl string // paths.SystemControl
	LogFields     string // paths.LogFields
	Etc           string // has passwd(5) and group(5)
	Settings      string // paths.Settings
	// ToolchainMounts is paths.ToolchainMounts.
	ToolchainMounts string
	OnHost          func(f func() error) error // OnHost of this package
	Cgroup          string                     // of the unit, cgroups(7); "" if it has none
}

// Installed is the installed system.
func Installed() Host {
	return Host{
		StateDir: paths.StateDir, RuntimeDir: paths.RuntimeDir, Sessions: paths.Sessions, Repositories: paths.Repositories,
		SessionStates: paths.SessionStates, Workspaces: paths.Workspaces,
		PrivateStates: paths.PrivateStates, StateLinks: paths.StateLinks, SystemControl: paths.SystemControl,
		LogFields: paths.LogFields, Etc: "/etc", Settings: paths.Settings, ToolchainMounts: paths.ToolchainMounts,
		OnHost: OnHost,
		Cgroup: ownCgroup(),
	}
}

// ownCgroup returns the directory of the cgroup of this process, which is the cgroup of the unit.
func ownCgroup() string {
	list, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(list)) {
		if path, v2 := strings.CutPrefix(line, "0::"); v2 { // cgroups(7)
			return filepath.Join("/sys/fs/cgroup", strings.TrimSpace(path))
		}
	}
	return ""
}

// sessionUnit is the unit of one session. Its ID has been checked.
type sessionUnit struct {
	Host

	id string
}

// session returns the unit of a session.
func (h Host) session(id string) (sessionUnit, error) { return sessionUnit{h, id}, paths.CheckID(id) }

// dir is the directory of the session that only root can change.
func (s sessionUnit) dir() string { return filepath.Join(s.Sessions, s.id) }

// current opens the directory of the daemon's state, which the daemon owns, and returns the number of the command to
// run.
func (s sessionUnit) current() (state dir, number int, err error) {
	state, err = openDir(s.StateDir)
	if err != nil {
		return dir{}, 0, fmt.Errorf("cannot open the state of the daemon: %w", err)
	}
	text, err := state.read(filepath.Join(paths.SessionDir(s.id), paths.Current), 16)
	if err == nil {
		number, err = paths.ParseCommand(strings.TrimSuffix(string(text), "\n"))
	}
	if err != nil {
		err = fmt.Errorf("cannot find out which command to run: %w", err)
		return dir{}, 0, errors.Join(err, state.Close())
	}
	return state, number, nil
}

// begin makes the session's directory, with the number of the command.
func (s sessionUnit) begin(number int) error {
	path := s.dir()
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(path, paths.CommandNumber), []byte(strconv.Itoa(number)), 0o600)
}

// running returns the number of the command that begin has noted; without a note, of the command to run.
func (s sessionUnit) running() (state dir, number int, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir(), paths.CommandNumber))
	if err != nil {
		return s.current()
	}
	if number, err = paths.ParseCommand(string(text)); err != nil {
		return dir{}, 0, err
	}
	state, err = openDir(s.StateDir)
	return state, number, err
}
