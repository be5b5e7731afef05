// Package accountstate keeps the known state of the accounts in a file, and reports its changes.
package accountstate

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"codex-proxy/daemon/reload"
	"codex-proxy/internal/nudge"
	"codex-proxy/workers/accounts"
)

// interval is the longest time that a change of the accounts is only in memory.
// Changes of states are written at once: all other fields may change with each turn.
const interval = 10 * time.Second

// Keeper keeps the known state of the accounts in a file, and reports its changes.
type Keeper struct {
	store     *accounts.Store
	path      string          // empty: there is no file
	changes   nudge.Nudge     // the store has changed
	started   <-chan struct{} // closed when this process serves
	successor *reload.Successor
	logger    *slog.Logger

	// The rest is for the goroutine of run.
	events  events
	written uint64   // revision of the store in the file
	urgent  []urgent // likewise
	failed  bool     // the last attempt to write
}

// urgent is the part of an account that is written at once when it changes.
type urgent struct {
	name, quotaID string
	state         accounts.State
	paused, inUse bool
}

// NewKeeper makes the store of the accounts, with the content of the file.
func NewKeeper(policy accounts.Policy, names []string, started <-chan struct{}, successor *reload.Successor,
	logger *slog.Logger) *Keeper {
	k := &Keeper{
		started: started, successor: successor, changes: nudge.New(), logger: logger, events: events{logger: logger},
	}
	k.store = accounts.NewStore(policy, names, k.changes.Touch)
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		k.path = filepath.Join(dir, accounts.FileName)
		k.load()
	}
	k.events.begin(k.store)
	return k
}

// load reads the file. Without a usable one, the accounts are read from codex anew.
func (k *Keeper) load() {
	saved, err := accounts.ReadFile(k.path)
	switch {
	case err == nil:
		k.store.Restore(saved, time.Now())
	case !errors.Is(err, fs.ErrNotExist):
		k.logger.Warn("what was known of the accounts is lost; it is read anew", "path", k.path, "error", err)
	}
}

// Store is the store of the accounts.
func (k *Keeper) Store() *accounts.Store { return k.store }

// Run reports and writes changes, and calls changed after each, until ctx ends. While a predecessor or a successor
// serves, that one writes the file.
func (k *Keeper) Run(ctx context.Context, changed func()) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-k.changes:
			changed()
			k.report()
			if slices.Equal(k.urgent, k.urgencies()) { // as after most refusals
				continue
			}
		case <-ticker.C:
		case <-ctx.Done():
			k.write()
			return nil
		}
		k.write()
	}
}

// serves reports whether this process serves, and not its predecessor or its successor.
func (k *Keeper) serves() bool {
	select {
	case <-k.started:
		return !k.successor.Serves()
	default:
		return false
	}
}

func (k *Keeper) report() {
	if k.serves() {
		now := time.Now()
		blocked, _ := k.store.Blocked(now)
		k.events.report(k.store.Views(now), blocked)
	}
}

// urgencies are the parts of all accounts now.
func (k *Keeper) urgencies() (all []urgent) {
	for _, v := range k.store.Views(time.Now()) {
		all = append(all, urgent{v.Name, v.QuotaID, v.State, v.Paused, v.InUse})
	}
	return all
}

func (k *Keeper) write() {
	revision := k.store.Revision()
	if k.path == "" || revision == k.written || !k.serves() {
		return
	}
	urgent := k.urgencies()
	err := accounts.WriteFile(k.path, k.store.Save())
	if err != nil && !k.failed {
		k.logger.Warn("cannot write what is known of the accounts; a restart forgets it", "path", k.path, "error", err)
	}
	if k.failed = err != nil; !k.failed {
		k.written, k.urgent = revision, urgent
	}
}

// events logs the changes of the accounts' states, one entry a change.
type events struct {
	logger  *slog.Logger
	states  map[string]accounts.State
	inUse   string // the account in use; empty: none
	blocked bool
}

// begin takes the state of an earlier process for reported.
func (e *events) begin(b *accounts.Store) {
	now := time.Now()
	e.states = map[string]accounts.State{}
	for _, v := range b.Views(now) {
		e.states[v.Name] = v.State
		if v.InUse {
			e.inUse = v.Name
		}
	}
	e.blocked, _ = b.Blocked(now)
}

// report logs the changes since the last call.
func (e *events) report(views []accounts.View, blocked bool) {
	for _, v := range views {
		before := e.states[v.Name]
		e.states[v.Name] = v.State
		if v.State != before {
			e.log(v, before)
		}
	}
	for _, v := range views {
		if v.InUse && v.Name != e.inUse {
			e.logger.Info("another account is in use", "worker", v.Name, "before", e.inUse)
			e.inUse = v.Name
		}
	}
	if blocked && !e.blocked {
		e.logger.Warn("no account has quota", "accounts", len(views))
	}
	e.blocked = blocked
}

// log logs the new state of an account. That an unknown account becomes available is no
// event.
func (e *events) log(v accounts.View, before accounts.State) {
	logger := e.logger.With("worker", v.Name)
	switch v.State {
	case accounts.Low:
		logger.Warn("account is low", "left", v.Left)
	case accounts.Exhausted:
		logger.Warn("account is exhausted", "until", v.Until)
	case accounts.LoginInvalid:
		logger.Error("the login of an account is invalid")
	case accounts.Available, accounts.Unknown:
		if before != accounts.Available && before != accounts.Unknown {
			logger.Info("account is available", "left", v.Left)
		}
	}
}
