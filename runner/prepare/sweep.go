package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// Sweep removes the object of the instance of paths.SweepUnit: the home of a session, the mirrors of a repository, an
// environment, or a slot. Their users are gone, so only root can do this. The files of a running session are an error;
// the daemon knows which sessions use repositories and environments.
func (h Host) Sweep(instance string) error {
	what, name, _ := strings.Cut(instance, "-")
	switch what {
	case "session":
		if err := (sweeper{h}).idle(name); err != nil {
			return err
		}
		s := sessionUnit{h, name}
		files := sessionFiles{s}
		return errors.Join(sweeper{h}.removeLogFields(name), workspace.Remove(files.homeWork()), workspace.Remove(files.home()),
			sweeper{h}.removeState("codex-session", name))
	case "repository":
		if err := paths.CheckKey(name); err != nil {
			return err
		}
		return sweeper{h}.removeState("codex-repository", name)
	case "environment":
		return h.removeEnvironment(name)
	case "slot":
		return sweeper{h}.removeSlot(name)
	}
	return fmt.Errorf("cannot sweep %.60q: name session-ID, repository-KEY, environment-KEY or slot-NUMBER", instance)
}

// sweeper removes the rest of sessions, repositories and environments.
type sweeper struct{ Host }

// removeLogFields removes the files that systemd leaves of the units of a session.
func (h sweeper) removeLogFields(id string) error {
	for _, unit := range []string{paths.SessionUnit(id), paths.OnlineUnit(id)} {
		if err := os.Remove(h.LogFields + unit); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeState removes a StateDirectory= of a dynamic user, and the link to it.
func (h sweeper) removeState(of, name string) error {
	err := os.Remove(filepath.Join(h.StateLinks, of, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, workspace.Remove(filepath.Join(h.PrivateStates, of, name)))
}

// idle returns an error if the session runs.
func (h sweeper) idle(id string) error {
	s, err := h.session(id)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.dir()); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("session %s runs: wait for its end", id), err)
	}
	return nil
}

func (h sweeper) removeSlot(name string) error {
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > session.MaxSlot || strconv.Itoa(n) != name {
		return fmt.Errorf("%q is no slot: use a number of 1 to %d", name, session.MaxSlot)
	}
	slot := filepath.Join(h.Workspaces, paths.Slot(n))
	tenant, err := os.ReadFile(filepath.Join(slot, paths.Tenant))
	if err == nil && len(tenant) > 0 { // a crash of the host may leave it empty
		err = h.idle(tenantIn(tenant))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return workspace.Remove(slot)
}
