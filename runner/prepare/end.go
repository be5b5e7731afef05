package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// bootID is the file with the ID of this boot, random(4).
const bootID = "/proc/sys/kernel/random/boot_id"

// End records the end of the session's unit among the files of its command, and removes the files that Prepare and
// systemd have left at its start. It takes the facts from the environment (ExecStopPost= in systemd.exec(5)) and from
// the unit's cgroup. A command ends once: an existing record stays, and is an error.
func (h Host) End(id string, getenv func(string) string) error {
	if err := paths.CheckID(id); err != nil {
		return err
	}
	state, number, err := h.running(id)
	if err != nil {
		return errors.Join(err, h.clean(id))
	}
	defer state.Close()
	tree, _ := os.Readlink(filepath.Join(h.session(id), paths.WorkspaceLink))
	ended, err := h.facts(id, getenv)
	// The record is last: after it the daemon sets the limits of the next command, which clean must not remove.
	err = errors.Join(err, h.clean(id))
	if ended == nil {
		return err
	}
	return errors.Join(err, h.record(state, id, number, ended), removePrevious(tree))
}

// removePrevious removes the tree of the session before, which nothing needs after a checkout. No request waits for it.
func removePrevious(tree string) error {
	if tree == "" {
		return nil
	}
	return workspace.Remove(filepath.Join(filepath.Dir(tree), paths.Previous))
}

func (h Host) record(state dir, id string, number int, ended []byte) error {
	daemon, err := ownerOf(state.File)
	if err != nil {
		return err
	}
	command, err := state.sub(paths.CommandDir(id, number))
	if err != nil {
		return fmt.Errorf("cannot find the command that has ended: %w", err)
	}
	defer command.Close()
	if err := command.publish(paths.Ended, ended, daemon); err != nil {
		return fmt.Errorf("cannot record the end of the unit: %w", err)
	}
	return nil
}

func (h Host) facts(id string, getenv func(string) string) ([]byte, error) {
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return nil, fmt.Errorf("cannot find the ID of this boot: %w", err)
	}
	refusal, err := os.ReadFile(filepath.Join(h.session(id), paths.Refusal))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return session.Encode(&session.Ended{
		Version:       session.Version,
		ServiceResult: getenv("SERVICE_RESULT"),
		ExitCode:      getenv("EXIT_CODE"),
		ExitStatus:    getenv("EXIT_STATUS"),
		Invocation:    getenv("INVOCATION_ID"),
		Boot:          strings.TrimSpace(string(boot)),
		Time:          time.Now(),
		Refusal:       string(refusal),
		OOMKills:      h.count("memory.events", "oom_kill"),
		TaskLimit:     h.count("pids.events", "max"),
		MemoryPeak:    h.count("memory.peak", ""),
	})
}

// count returns a counter of the unit's cgroup. It is 0 without the controller.
func (h Host) count(file, key string) uint64 {
	text, _ := os.ReadFile(filepath.Join(h.Cgroup, file))
	return session.Counter(string(text), key)
}

// publish makes a file that a reader finds whole or not at all. An existing one is an error.
func (d dir) publish(name string, content []byte, owner owner) error {
	part := name + ".part"
	if err := d.remove(part); err != nil {
		return err
	}
	file, err := d.create(part, owner)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	err = unix.Renameat2(int(d.Fd()), part, int(d.Fd()), name, unix.RENAME_NOREPLACE)
	if err != nil {
		return errors.Join(&os.PathError{Op: "make", Path: d.Name() + "/" + name, Err: err}, d.remove(part))
	}
	return nil
}

func (h Host) clean(id string) error {
	return errors.Join(
		h.removeSocket(id),
		os.RemoveAll(h.session(id)),
		os.RemoveAll(filepath.Join(h.SystemControl, paths.SessionUnit(id)+".d")),
		os.RemoveAll(filepath.Join(h.SystemControl, paths.OnlineUnit(id)+".d")),
	)
}

func (h Host) removeSocket(id string) error {
	runtime, err := openDir(h.RuntimeDir)
	if err == nil {
		defer runtime.Close()
		var place dir
		if place, err = runtime.sub(paths.ControlDir(id)); err == nil {
			defer place.Close()
			err = place.remove(paths.ControlSocket)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
