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
	s, err := h.session(id)
	if err != nil {
		return err
	}
	state, number, err := s.running()
	if err != nil {
		return errors.Join(err, s.clean())
	}
	defer state.Close()
	tree, _ := os.Readlink(filepath.Join(s.dir(), paths.WorkspaceLink))
	ended, err := s.facts(getenv)
	if filepath.Base(tree) == paths.Merged {
		err = errors.Join(err, s.OnHost(func() error { return sessionFiles{s}.unmount(filepath.Dir(tree)) }))
	}
	// The record is last: after it the daemon sets the limits of the next command, which clean must not remove.
	err = errors.Join(err, s.clean())
	if ended == nil {
		return err
	}
	return errors.Join(err, s.record(state, number, ended), removePrevious(tree))
}

// removePrevious removes the tree of the session before, which nothing needs after a checkout. No request waits for it.
func removePrevious(tree string) error {
	if tree == "" {
		return nil
	}
	return workspace.Remove(filepath.Join(filepath.Dir(tree), paths.Previous))
}

func (s sessionUnit) record(state dir, number int, ended []byte) error {
	daemon, err := ownerOf(state.File)
	if err != nil {
		return err
	}
	command, err := state.sub(paths.CommandDir(s.id, number))
	if err != nil {
		return fmt.Errorf("cannot find the command that has ended: %w", err)
	}
	defer command.Close()
	if err := command.publish(paths.Ended, ended, daemon); err != nil {
		return fmt.Errorf("cannot record the end of the unit: %w", err)
	}
	return nil
}

func (s sessionUnit) facts(getenv func(string) string) ([]byte, error) {
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return nil, fmt.Errorf("cannot find the ID of this boot: %w", err)
	}
	refusal, err := os.ReadFile(filepath.Join(s.dir(), paths.Refusal))
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
		OOMKills:      s.count("memory.events", "oom_kill"),
		TaskLimit:     s.count("pids.events", "max"),
		MemoryPeak:    s.count("memory.peak", ""),
	})
}

// count returns a counter of the unit's cgroup. It is 0 without the controller.
func (s sessionUnit) count(file, key string) uint64 {
	text, _ := os.ReadFile(filepath.Join(s.Cgroup, file))
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

func (s sessionUnit) clean() error {
	return errors.Join(
		s.removeSocket(),
		lender{s.Host}.takeBackToolchains(s.id),
		os.RemoveAll(s.dir()),
		os.RemoveAll(filepath.Join(s.SystemControl, paths.SessionUnit(s.id)+".d")),
		os.RemoveAll(filepath.Join(s.SystemControl, paths.OnlineUnit(s.id)+".d")),
	)
}

func (s sessionUnit) removeSocket() error {
	runtime, err := openDir(s.RuntimeDir)
	if err == nil {
		defer runtime.Close()
		var place dir
		if place, err = runtime.sub(paths.ControlDir(s.id)); err == nil {
			defer place.Close()
			err = place.remove(paths.ControlSocket)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
