package prepare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codex-proxy/notify"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/setup"
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
func (s sessionUnit) lendEnvironments(want *session.Environment) error {
	if want == nil || environment.IsSetup(want.Name) {
		return nil
	}
	dir := filepath.Join(s.environments(), want.Owner)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return os.Symlink(dir, filepath.Join(s.dir(), paths.EnvironmentsLink))
}

// buildUnit is the unit that builds one environment. Its instance has been checked.
type buildUnit struct {
	Host

	instance string
}

// build returns the unit of an instance.
func (h Host) build(instance string) (buildUnit, error) {
	return buildUnit{h, instance}, paths.CheckEnvironmentInstance(instance)
}

// Build prepares the start of the unit that builds an environment, as Job does, and notes which one it is: the daemon
// may write another order meanwhile.
func (h Host) Build(ctx context.Context, instance string, notifier *notify.Notifier) error {
	u, err := h.build(instance)
	if err != nil {
		return err
	}
	order, err := u.order()
	if err != nil {
		return fmt.Errorf("cannot read the order: %w", err)
	}
	if err := u.begin(); err != nil {
		return fmt.Errorf("cannot make the place of a build: %w", err)
	}
	if err := os.WriteFile(u.note(), []byte(order.note()), 0o600); err != nil {
		return err
	}
	if order.SetUp != nil {
		if err := u.lendPlace(*order.SetUp); err != nil {
			return fmt.Errorf("cannot make the place of a set-up: %w", err)
		}
	}
	owner, _ := strconv.Atoi(order.owner()) // none for paths.Shared
	if err := (lender{h}).lendToolchains(instance, owner); err != nil {
		return fmt.Errorf("cannot give the toolchains to the build: %w", err)
	}
	return h.Job(ctx, paths.EnvironmentDir(instance), notifier)
}

// state has the files of the build. They are not in StateDirectory= of the unit, which systemd may mount with another
// owner on the disk: that of a dynamic user is nobody then, and BindPaths= of the unit would show that.
func (u buildUnit) state() string { return filepath.Join(u.environments(), paths.BuildDir(u.instance)) }

// links is the directory with the links by which the unit of a build sees its place.
func (u buildUnit) links() string { return filepath.Join(u.Sessions, paths.BuildDir(u.instance)) }

// begin makes the directory of the build, and the link to it. An earlier build may have been cut off.
func (u buildUnit) begin() error {
	user, err := userOf(filepath.Join(u.PrivateStates, buildState, u.instance))
	if err != nil {
		return err
	}
	if err := errors.Join(workspace.Remove(u.state()), os.RemoveAll(u.links())); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(u.state(), 0o755), os.MkdirAll(u.links(), 0o755)); err != nil {
		return err
	}
	return errors.Join(os.Lchown(u.state(), user.uid, user.gid),
		os.Symlink(u.state(), filepath.Join(u.links(), paths.EnvironmentsLink)))
}

func (u buildUnit) note() string {
	return filepath.Join(u.environments(), "note-"+u.instance)
}

func (u buildUnit) order() (order buildOrder, err error) {
	state, err := openDir(u.StateDir)
	if err != nil {
		return order, err
	}
	defer state.Close()
	text, err := state.read(filepath.Join(paths.EnvironmentDir(u.instance), paths.Order), maxOrder)
	if err == nil {
		err = json.Unmarshal(text, &order)
	}
	if err == nil {
		err = order.check()
	}
	if key := order.Key(); err == nil && paths.EnvironmentInstance(key) != u.instance {
		err = fmt.Errorf("it is that of the environment %s: it cannot be %s", key, u.instance)
	}
	return order, err
}

// buildOrder has what root needs of a job.Build.
type buildOrder struct {
	Order environment.Order `json:"order"`
	SetUp *setup.Build      `json:"set_up"`
}

// Key is as job.Build has it.
func (o buildOrder) Key() string {
	if o.SetUp != nil {
		return o.SetUp.Key()
	}
	return o.Order.Key()
}

// owner is who gets what is built.
func (o buildOrder) owner() string {
	if o.SetUp != nil {
		return o.SetUp.Scope.User
	}
	return o.Order.Owner
}

// note is for Publish.
func (o buildOrder) note() string {
	if o.SetUp != nil {
		return setUpNote + o.owner()
	}
	return o.owner() + " " + o.Key()
}

func (o buildOrder) check() error {
	err := paths.CheckOwner(o.owner())
	if o.SetUp != nil {
		err = errors.Join(err, paths.CheckKey(o.SetUp.Scope.Repository))
	}
	return err
}

// Publish has sessions see the environment of a unit that has ended, if its build succeeded, and removes all else that
// the build has left. It is for after the last process of the unit: before, foreign code could change the files. The
// reason why sessions do not get a built one goes into its result.
func (h Host) Publish(instance string, getenv func(string) string) error {
	u, err := h.build(instance)
	if err != nil {
		return err
	}
	if getenv("SERVICE_RESULT") == "success" {
		if err = u.publish(); err != nil {
			err = errors.Join(err, u.fail(err))
		}
	}
	return errors.Join(err, lender{u.Host}.takeBackToolchains(instance), u.remove())
}

// remove removes all that a build has left.
func (u buildUnit) remove() error {
	return errors.Join(ignoreMissing(os.Remove(u.note())), workspace.Remove(u.state()),
		os.RemoveAll(u.links()), sweeper{u.Host}.removeState(buildState, u.instance))
}

func (u buildUnit) publish() error {
	note, err := os.ReadFile(u.note())
	if err != nil {
		return fmt.Errorf("cannot find out which environment was built: %w", err)
	}
	if user, ok := strings.CutPrefix(string(note), setUpNote); ok {
		return u.publishSetUp(user)
	}
	owner, key, _ := strings.Cut(string(note), " ")
	if err := errors.Join(paths.CheckOwner(owner), paths.CheckEnvironment(key)); err != nil {
		return err
	}
	built, err := openDir(u.state())
	if err != nil {
		return err
	}
	defer built.Close()
	whole, err := built.whole(key)
	if err != nil || !whole {
		return err
	}
	above := filepath.Join(u.environments(), owner)
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
func (u buildUnit) fail(reason error) error {
	text, err := json.Marshal(map[string]any{
		"version": 1, "failure": map[string]string{"code": "failed", "text": reason.Error()},
	})
	if err != nil {
		return err
	}
	state, err := openDir(u.StateDir)
	if err != nil {
		return err
	}
	defer state.Close()
	daemon, err := ownerOf(state.File)
	if err != nil {
		return err
	}
	job, err := state.sub(paths.EnvironmentDir(u.instance))
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
	err := sweeper{h}.removeState(filepath.Base(paths.EnvironmentStates), key)
	owners, globErr := filepath.Glob(filepath.Join(h.environments(), "*", key))
	err = errors.Join(err, globErr)
	for _, dir := range owners {
		// A part is not whole.
		err = errors.Join(err, environment.Discard(dir), ignoreMissing(os.Remove(filepath.Join(dir, paths.Whole))),
			workspace.Remove(dir))
	}
	if paths.CheckEnvironment(key) == nil { // the rest of a build if Publish was killed, too
		err = errors.Join(err, buildUnit{h, paths.EnvironmentInstance(key)}.remove())
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
