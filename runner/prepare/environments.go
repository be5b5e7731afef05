package prepare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/notify"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// buildState is StateDirectory= of the units that build environments, less the instance.
const buildState = "codex-environment-build"

// maxOrder bounds the order of a build, in bytes, as package job does.
const maxOrder = 128 << 20

// environments has the whole environments by owner and key. Root alone may enter it.
func (h Host) environments() string {
	return filepath.Join(h.StateLinks, filepath.Base(paths.EnvironmentStates))
}

// lendEnvironments links the environments that a command may use, for BindReadOnlyPaths= of the unit. A build may add
// one while the command waits.
func (h Host) lendEnvironments(id string, want *session.Environment) error {
	if want == nil {
		return nil
	}
	dir := filepath.Join(h.environments(), want.Owner)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return os.Symlink(dir, filepath.Join(h.session(id), paths.EnvironmentsLink))
}

// Build prepares the start of the unit that builds an environment, as Job does, and notes which one it is: the daemon
// may write another order meanwhile.
func (h Host) Build(ctx context.Context, instance string, notifier *notify.Notifier) error {
	if err := paths.CheckEnvironmentInstance(instance); err != nil {
		return err
	}
	order, err := h.order(instance)
	if err != nil {
		return fmt.Errorf("cannot read the order: %w", err)
	}
	// systemd has made the directory before, and an earlier build may have been cut off.
	if err := emptyDir(filepath.Join(h.PrivateStates, buildState, instance)); err != nil {
		return fmt.Errorf("cannot clear what an earlier build left: %w", err)
	}
	if err := os.WriteFile(h.buildNote(instance), []byte(order.Owner+" "+order.Key()), 0o600); err != nil {
		return err
	}
	return h.Job(ctx, paths.EnvironmentDir(instance), notifier)
}

func (h Host) buildNote(instance string) string {
	return filepath.Join(h.environments(), "build-"+instance)
}

func (h Host) order(instance string) (environment.Order, error) {
	var build struct{ Order environment.Order }
	state, err := openDir(h.StateDir)
	if err != nil {
		return build.Order, err
	}
	defer state.Close()
	text, err := state.read(filepath.Join(paths.EnvironmentDir(instance), paths.Order), maxOrder)
	if err == nil {
		err = json.Unmarshal(text, &build)
	}
	if err == nil {
		err = paths.CheckOwner(build.Order.Owner)
	}
	if key := build.Order.Key(); err == nil && paths.EnvironmentInstance(key) != instance {
		err = fmt.Errorf("it is that of the environment %s: it cannot be %s", key, instance)
	}
	return build.Order, err
}

// Publish has sessions see the environment of a unit that has ended, if its build succeeded, and removes all else that
// the build has left. It is for after the last process of the unit: before, foreign code could change the files. The
// reason why sessions do not get a built one goes into its result.
func (h Host) Publish(instance string, getenv func(string) string) error {
	if err := paths.CheckEnvironmentInstance(instance); err != nil {
		return err
	}
	err := error(nil)
	if getenv("SERVICE_RESULT") == "success" {
		if err = h.publish(instance); err != nil {
			err = errors.Join(err, h.fail(instance, err))
		}
	}
	return errors.Join(err, ignoreMissing(os.Remove(h.buildNote(instance))), h.removeState(buildState, instance))
}

func (h Host) publish(instance string) error {
	note, err := os.ReadFile(h.buildNote(instance))
	if err != nil {
		return fmt.Errorf("cannot find out which environment was built: %w", err)
	}
	owner, key, _ := strings.Cut(string(note), " ")
	if err := errors.Join(paths.CheckOwner(owner), paths.CheckEnvironment(key)); err != nil {
		return err
	}
	built, err := openDir(filepath.Join(h.PrivateStates, buildState, instance))
	if err != nil {
		return err
	}
	defer built.Close()
	whole, err := built.whole(key)
	if err != nil || !whole {
		return err
	}
	above := filepath.Join(h.environments(), owner)
	if err := os.MkdirAll(above, 0o711); err != nil {
		return err
	}
	to := filepath.Join(above, key)
	if err := errors.Join(environment.Discard(to), workspace.Remove(to)); err != nil {
		return fmt.Errorf("cannot remove an earlier environment: %w", err)
	}
	return os.Rename(filepath.Join(built.Name(), key), to)
}

// whole gives the environment of that key below d to root, and reports whether there is a whole one: a build that
// failed leaves none.
func (d dir) whole(key string) (bool, error) {
	sub, err := d.sub(key)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer sub.Close()
	mark, err := sub.read(environment.ReadyFile, int64(len(key))+1)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(mark) != key+"\n" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// A process could listen on a socket there, or wait at a FIFO, for the sessions that see it.
	if err := (gift{plain: true}).all(sub, "", 1); err != nil {
		return false, fmt.Errorf("sessions cannot have what the build left: %w: need another package", err)
	}
	return true, nil
}

// fail replaces the result of a build.
func (h Host) fail(instance string, reason error) error {
	text, err := json.Marshal(map[string]any{
		"version": 1, "failure": map[string]string{"code": "failed", "text": reason.Error()},
	})
	if err != nil {
		return err
	}
	state, err := openDir(h.StateDir)
	if err != nil {
		return err
	}
	defer state.Close()
	daemon, err := ownerOf(state.File)
	if err != nil {
		return err
	}
	job, err := state.sub(paths.EnvironmentDir(instance))
	if err != nil {
		return err
	}
	defer job.Close()
	if err := job.remove(paths.Result); err != nil {
		return err
	}
	return job.publish(paths.Result, append(text, '\n'), daemon)
}

// removeEnvironment removes an environment of any owner, also one with the short key of an earlier version.
func (h Host) removeEnvironment(key string) error {
	if paths.CheckEnvironment(key) != nil && paths.CheckKey(key) != nil {
		return paths.CheckEnvironment(key)
	}
	err := h.removeState(filepath.Base(paths.EnvironmentStates), key)
	owners, globErr := filepath.Glob(filepath.Join(h.environments(), "*", key))
	err = errors.Join(err, globErr)
	for _, dir := range owners {
		err = errors.Join(err, environment.Discard(dir), workspace.Remove(dir)) // a part is not whole
	}
	if paths.CheckEnvironment(key) == nil { // the rest of a build if Publish was killed, too
		instance := paths.EnvironmentInstance(key)
		err = errors.Join(err, ignoreMissing(os.Remove(h.buildNote(instance))), h.removeState(buildState, instance))
	}
	return err
}

// emptyDir removes the entries of a directory, but not the directory.
func emptyDir(path string) error {
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		err = errors.Join(err, workspace.Remove(filepath.Join(path, entry.Name())))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
