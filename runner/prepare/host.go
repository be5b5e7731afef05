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
	Cgroup        string // of the unit, cgroups(7); "" if it has none
}

// Installed is the installed system.
func Installed() Host {
	return Host{
		StateDir: paths.StateDir, RuntimeDir: paths.RuntimeDir, Sessions: paths.Sessions, Repositories: paths.Repositories,
		SessionStates: paths.SessionStates, Workspaces: paths.Workspaces,
		PrivateStates: paths.PrivateStates, StateLinks: paths.StateLinks, SystemControl: paths.SystemControl,
		LogFields: paths.LogFields,
		Cgroup:    ownCgroup(),
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

// session is the directory of the session that only root can change.
func (h Host) session(id string) string { return filepath.Join(h.Sessions, id) }

// current opens the directory of the daemon's state, which the daemon owns, and returns the number of the command to
// run.
func (h Host) current(id string) (state dir, number int, err error) {
	state, err = openDir(h.StateDir)
	if err != nil {
		return dir{}, 0, fmt.Errorf("cannot open the state of the daemon: %w", err)
	}
	text, err := state.read(filepath.Join(paths.SessionDir(id), paths.Current), 16)
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
func (h Host) begin(id string, number int) error {
	path := h.session(id)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(path, paths.CommandNumber), []byte(strconv.Itoa(number)), 0o600)
}

// running returns the number of the command that begin has noted; without a note, of the command to run.
func (h Host) running(id string) (state dir, number int, err error) {
	text, err := os.ReadFile(filepath.Join(h.session(id), paths.CommandNumber))
	if err != nil {
		return h.current(id)
	}
	if number, err = paths.ParseCommand(string(text)); err != nil {
		return dir{}, 0, err
	}
	state, err = openDir(h.StateDir)
	return state, number, err
}
