package prepare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/homelock"
	"codex-proxy/workers/login"
	"codex-proxy/workers/sharing"
	"codex-proxy/workers/shim"
)

// homes are the directories with the homes of workers, and with those of their logins.
type homes struct{ workers, logins string }

// fromUnit are the directories for a program of a unit with DynamicUser=, also for one that runs as root: its
// own view has no other homes, and no file moves from one mount to another.
var fromUnit = homes{hostRoot + paths.WorkerHomes, hostRoot + paths.LoginHomes}

const hostRoot = "/proc/1/root"

// loginFault is a file of worker-wait for worker-prepare: why the worker's login is not where its file wants it.
const loginFault = "login-fault"

// stopping stops units in their order.
type stopping func(ctx context.Context, names ...string) error

// placeLogins moves the login of a worker that does not run to the home that its file wants: the worker's, or that of
// codex-login@.service; and those of the accounts that the worker serves. Only a unit that is made of that text of the
// file has them moved. It runs as root.
func (h homes) placeLogins(ctx context.Context, name string, w *codexhome.Worker, stop stopping, note func(string)) {
	err := ownHome(name, w)
	if err != nil {
		keepFault(err) // the worker does not start, and the others may run
		return
	}
	err = h.place(ctx, name, w, os.Getenv(shim.BrokerVariable) != "", stop)
	served := strings.Fields(os.Getenv(sharing.ServesVariable))
	switch {
	case err != nil && len(served) == 0:
		keepFault(err)
	case err != nil: // it starts for the others
		note(notServed(name, err))
	}
	h.placeServed(ctx, served, stop, note)
}

// keepFault has worker-prepare fail.
func keepFault(err error) {
	dir := runtimeDir()
	if dir == "" {
		return
	}
	root, failed := os.OpenRoot(dir)
	if failed != nil {
		return // worker-prepare finds out
	}
	defer root.Close()
	_ = root.Remove(loginFault)
	file, failed := root.OpenFile(loginFault, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if failed != nil {
		return
	}
	defer file.Close()
	_, _ = file.WriteString(strings.ReplaceAll(err.Error(), hostRoot, ""))
	_ = file.Chmod(0o644) // the worker's user reads it
}

// ownHome refuses another home of a worker with its login apart: nobody would look for the login there.
func ownHome(name string, w *codexhome.Worker) error {
	own := filepath.Join(paths.WorkerHomes, name)
	if set := os.Getenv("CODEX_HOME"); w.LoginApart() && set != "" && filepath.Clean(set) != own {
		return fmt.Errorf("CODEX_HOME=%s, and with network = \"model\" the home is %s: take CODEX_HOME out by `systemctl edit %s`",
			set, own, units.Worker(name))
	}
	return nil
}

// place is placeLogins of the worker's own login for a unit that is made apart from its login, or not.
func (h homes) place(ctx context.Context, name string, w *codexhome.Worker, apart bool, stop stopping) error {
	switch {
	case !w.NeedsLogin(): // it has a provider now: nobody reads the account that it had
		return h.unmark(name)
	case w.LoginApart() && apart:
		return h.setApart(ctx, name, stop)
	case !w.Brokered && !apart:
		return h.setBack(ctx, name, stop)
	}
	return nil
}

// placedLogin is the error of placeLogins.
func placedLogin() error {
	text, err := os.ReadFile(filepath.Join(runtimeDir(), loginFault))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return &codexhome.Problem{Text: string(text)}
}

// setApart moves the login out of the worker's home. It does so once: a login that appears there later is not ours, and
// the worker does not start with it.
func (h homes) setApart(ctx context.Context, name string, stop stopping) error {
	kept := filepath.Join(h.logins, name)
	if _, err := os.Lstat(h.mark(name)); errors.Is(err, fs.ErrNotExist) {
		if err := stop(ctx, units.Login(name)); err != nil {
			return err
		}
		if err := h.move(ctx, name, filepath.Join(h.workers, name), kept); err != nil {
			return err
		}
		if err := os.WriteFile(h.mark(name), nil, 0o644); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	in, err := codexhome.ReadLogin(kept)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil && in.Login == codexhome.NoLogin && !codexhome.Offered(kept) {
		err = fmt.Errorf("codex is not logged in: run `codex-proxy accounts login %s`", name)
	}
	return err
}

// placeServed stops the workers of other accounts that this one serves now, and moves the logins out of their homes. An
// account with a fault has no turns; the others have.
func (h homes) placeServed(ctx context.Context, accounts []string, stop stopping, note func(string)) {
	for _, name := range accounts {
		err := stop(ctx, units.Worker(name))
		if err == nil {
			err = MakeHome(filepath.Join(h.workers, name)) // its worker may never have run
		}
		if err == nil {
			err = h.setApart(ctx, name, stop)
		}
		if err != nil {
			note(notServed(name, err))
		}
	}
}

func notServed(account string, err error) string {
	return "it does not serve the account " + account + ": " + strings.ReplaceAll(err.Error(), hostRoot, "")
}

// mark is paths.LoginMark in h.
func (h homes) mark(name string) string {
	return filepath.Join(h.logins, filepath.Base(paths.LoginMark(name)))
}

// unmark has the worker keep its login itself. A login in the other home stays there.
func (h homes) unmark(name string) error {
	if err := os.Remove(h.mark(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// private is where systemd moves the home of a login (DynamicUser=).
func (h homes) private(name string) string {
	above, base := filepath.Split(filepath.Clean(h.logins))
	return filepath.Join(above, "private", base, name)
}

// setBack moves the login back into the worker's home. It goes on after one that was cut at any point.
func (h homes) setBack(ctx context.Context, name string, stop stopping) error {
	kept := filepath.Join(h.logins, name)
	if !present(os.Lstat, kept) && !present(os.Lstat, h.private(name)) && !present(os.Lstat, h.mark(name)) {
		return nil
	}
	if err := stop(ctx, units.LoginSocket(name), units.Login(name)); err != nil {
		return err
	}
	if !present(os.Stat, kept) {
		kept = h.private(name) // if it has a login, none is removed with it
	}
	if present(os.Stat, kept) {
		if err := h.move(ctx, name, kept, filepath.Join(h.workers, name)); err != nil {
			return err
		}
	}
	return RemoveLogin(h.logins, name)
}

// present reports whether there is a file, also one that cannot be read.
func present(stat func(string) (fs.FileInfo, error), path string) bool {
	_, err := stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// MakeHome makes a home of a worker or of its login before the first start of its unit, which makes it the property of
// its user (StateDirectory=). It takes the place of a link of systemd to a home that is gone.
func MakeHome(dir string) error {
	if present(os.Lstat, dir) && !present(os.Stat, dir) {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// move moves the login between two homes, while no codex runs in either: a unit of the login that starts meanwhile
// waits for the lock.
func (h homes) move(ctx context.Context, name, from, to string) (err error) {
	if err := MakeHome(to); err != nil {
		return err
	}
	for _, home := range []string{from, to} {
		lock, err := homelock.Take(ctx, home, units.Worker(name))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	_, err = codexhome.MoveLogin(from, to)
	return err
}

// RemoveLogin removes the home of a login from the directory of such homes. The mark goes first, and the link of
// systemd last: a removal that was cut has left something by which setBack goes on.
func RemoveLogin(dir, name string) error {
	h := homes{logins: dir}
	for _, path := range []string{h.mark(name), h.private(name), filepath.Join(dir, name)} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// Login is `codex-proxy account-login`, the main process of codex-login@.service.
func Login(ctx context.Context, name, version string, idle time.Duration, stderr io.Writer) error {
	if err := units.ValidName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	note := func(line string) {
		fmt.Fprintf(stderr, "codex-login@%s: %s\n", name, strings.Join(strings.Fields(line), " "))
	}
	if err := keptEnvironment(); err != nil {
		return err
	}
	home, err := workerHome(name, note)
	if err != nil {
		return err
	}
	home.Keeps, home.Broker = true, ""
	// Its worker has tried this codex.
	if home.Program, err = Chosen(units.Worker(name)); err != nil {
		home.Program = ""
	}
	prepare := func(ctx context.Context) error { return WithSignals(ctx, home.Prepare) }
	unit := login.Unit{Worker: name, Version: version, Idle: idle, Home: home, Prepare: prepare}
	return unit.Run(ctx, stderr)
}

// keptEnvironment takes back what an operator has set for the worker in drop-ins, which codex-login@.service gets for
// its way to OpenAI: it has a home of its own, and its codex logs no requests.
func keptEnvironment() error {
	home := first(os.Getenv("STATE_DIRECTORY"))
	return errors.Join(os.Setenv("CODEX_HOME", home), os.Setenv("HOME", home), os.Setenv("RUST_LOG", "error"))
}

// stopUnits stops units in their order.
func stopUnits(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stopLoginBound)
	defer cancel()
	manager := units.NewManager()
	defer manager.Close()
	for _, name := range names {
		if err := manager.Stop(ctx, name); err != nil {
			return fmt.Errorf("cannot stop %s: %w", name, err)
		}
	}
	return nil
}

const (
	// stopLoginBound is longer than TimeoutStopSec= of codex-login@.service.
	stopLoginBound = 65 * time.Second
	// startBound is TimeoutStartSec= of codex-worker@.service.
	startBound = 30 * time.Second
)
