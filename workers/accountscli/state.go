package accountscli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
)

// state is the daemon's state of the accounts; while none runs, the last saved state.
func (a *Accounts) state(ctx context.Context, names []string) control.Accounts {
	known, err := control.NewClient(a.Socket).Accounts(ctx)
	if err == nil {
		return known
	}
	if !errors.Is(err, control.ErrNotRunning) {
		a.warn("The service does not report its accounts: %v", err)
	}
	known, err = a.saved(filepath.Join(paths.StateDir, accounts.FileName), names)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.warn("What the service saved of the accounts cannot be read: %v", err)
	}
	return known
}

// saved is the state that a daemon saved in the file, as the settings judge it now.
func (a *Accounts) saved(file string, names []string) (control.Accounts, error) {
	policy, err := a.Policy()
	if err != nil {
		a.warn("%v", err)
	}
	known := control.Accounts{Rotation: policy.Rotation}
	saved, err := accounts.ReadFile(file)
	if err != nil {
		return known, err
	}
	store := accounts.NewStore(policy, names, func() {})
	store.Restore(saved, time.Now())
	for _, account := range accounts.Known(store, time.Now()) {
		known.Accounts = append(known.Accounts, control.Account{Account: account})
	}
	return known, nil
}

// warn prints a line for people, once however often a watch repeats it.
func (a *Accounts) warn(format string, args ...any) {
	if a.Watch {
		if a.warned[format] {
			return
		}
		a.warned[format] = true
	}
	a.print(format, args...)
}
