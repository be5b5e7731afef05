package accountscli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/packaging/etc"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
)

// Add makes a worker, and starts it if its home has a login.
func (a *Accounts) Add(ctx context.Context, name string) error {
	file, unit := workerFileOf(name), units.Worker(name)
	if err := writeWorkerFile(file, name); err != nil {
		return err
	}
	if err := a.Systemd.Enable(ctx, unit); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	a.print("The worker %s is made: %s, %s.", name, file, unit)
	a.reloadProxy(ctx, func(names []string) string {
		if slices.Contains(names, name) {
			return ""
		}
		return fmt.Sprintf("config.toml names the workers that are used: add %q to `workers` there, "+
			"then systemctl reload codex-proxy", name)
	})
	in, err := hasLogin(file, name)
	if err != nil {
		a.print("Before it can start: %v", err)
	}
	if in {
		a.print("It has the login that was left in %s.", homeOfLogin(name))
		return a.takeUp(ctx, name)
	}
	a.print("Log it in, which starts it: codex-proxy accounts login %s", name)
	return nil
}

// writeWorkerFile makes a worker file of the one that the packages ship.
func writeWorkerFile(file, name string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("there is a worker %q already: %s", name, file)
	}
	if err != nil {
		return fmt.Errorf("cannot write the worker file: %w", err)
	}
	_, err = f.WriteString(workerFileFor(name))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil { // the worker's user reads it
		return fmt.Errorf("cannot write the worker file: %w", errors.Join(err, os.Remove(file)))
	}
	return nil
}

// workerFileFor returns the packaged worker file with the name in its comments.
func workerFileFor(name string) string {
	return strings.NewReplacer(`"default"`, `"`+name+`"`, "codex-worker@default", "codex-worker@"+name,
		"accounts login default", "accounts login "+name).Replace(etc.Worker)
}

// hasLogin reports whether the worker's home has a login of an earlier worker.
func hasLogin(file, name string) (bool, error) {
	if _, err := codexhome.Load(file); err != nil {
		return false, err
	}
	login, err := loginAtHome(name)
	return err == nil && login != loginMissing, err
}

// reloadProxy makes a running service read the worker files again. It prints hint,
// given the workers of config.toml, if that is not empty, and reloads nothing. A
// failure is printed and undoes nothing.
func (a *Accounts) reloadProxy(ctx context.Context, hint func(names []string) string) {
	names, err := a.Workers()
	if err != nil {
		a.print("The service is not reloaded: %v", err)
		return
	}
	if text := hint(names); text != "" {
		a.print("%s", text)
		return
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	proxy, err := a.started(ctx)
	if err == nil && !proxy.Active() {
		return // its next start reads them
	}
	if err == nil {
		err = a.Systemd.Reload(ctx, paths.ServiceUnit)
	}
	if err != nil {
		a.print("The service does not know of it yet: %v; then systemctl reload codex-proxy", err)
		return
	}
	a.print("%s is reloaded.", paths.ServiceUnit)
}

// started returns the service after the end of a start that is under way: the start
// may have read the workers already, and systemd reloads no unit that is starting.
func (a *Accounts) started(ctx context.Context) (units.Description, error) {
	proxy, err := a.describe(ctx, paths.ServiceUnit)
	if err != nil || !starting(proxy) {
		return proxy, err
	}
	if err := a.Systemd.AwaitJob(ctx, paths.ServiceUnit); err != nil {
		return proxy, err
	}
	if proxy, err = a.describe(ctx, paths.ServiceUnit); err == nil && starting(proxy) {
		err = errors.New("it is still starting")
	}
	return proxy, err
}

func starting(d units.Description) bool {
	return d.ActiveState == "activating" && d.SubState != "auto-restart"
}
