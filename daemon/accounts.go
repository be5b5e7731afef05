package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"codex-proxy/daemon/succession"
	"codex-proxy/workers/accounts"
)

// accountsInterval is the longest time that a change of the accounts is only in memory.
// Changes of states are written at once: all other fields may change with each turn.
const accountsInterval = 10 * time.Second

// accountKeeper keeps the known state of the accounts in a file, and reports its changes.
type accountKeeper struct {
	book      *accounts.Book
	path      string          // empty: there is no file
	changes   chan struct{}   // capacity 1: the book has changed
	started   <-chan struct{} // closed when this process serves
	successor *succession.Successor
	logger    *slog.Logger
	onChange  func() // the rest of the service looks at the book again

	// The rest is for the goroutine of run.
	events  accountEvents
	written uint64   // revision of the book in the file
	urgent  []urgent // likewise
	failed  bool     // the last attempt to write
}

// urgent is the part of an account that is written at once when it changes.
type urgent struct {
	name, quotaID string
	state         accounts.State
	paused, inUse bool
}

// newAccountKeeper makes the book of the accounts, with the content of the file.
func newAccountKeeper(policy accounts.Policy, names []string, logger *slog.Logger) *accountKeeper {
	k := &accountKeeper{changes: make(chan struct{}, 1), logger: logger, events: accountEvents{logger: logger}}
	k.book = accounts.NewBook(policy, names, k.changed)
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		k.path = filepath.Join(dir, accounts.FileName)
		k.load()
	}
	k.events.begin(k.book)
	return k
}

// load reads the file. Without a usable one, the accounts are read from codex anew.
func (k *accountKeeper) load() {
	saved, err := accounts.ReadFile(k.path)
	switch {
	case err == nil:
		k.book.Restore(saved, time.Now())
	case !errors.Is(err, fs.ErrNotExist):
		k.logger.Warn("what was known of the accounts is lost; it is read anew", "path", k.path, "error", err)
	}
}

// changed is called by the book, and does not block.
func (k *accountKeeper) changed() {
	select {
	case k.changes <- struct{}{}:
	default: // the token that is there covers this change, too
	}
}

// run reports and writes changes until ctx ends. While a predecessor or a successor serves,
// that one writes the file.
func (k *accountKeeper) run(ctx context.Context) error {
	ticker := time.NewTicker(accountsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-k.changes:
			k.onChange()
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
func (k *accountKeeper) serves() bool {
	select {
	case <-k.started:
		return !k.successor.Serves()
	default:
		return false
	}
}

func (k *accountKeeper) report() {
	if k.serves() {
		now := time.Now()
		blocked, _ := k.book.Blocked(now)
		k.events.report(k.book.Views(now), blocked)
	}
}

// urgencies are the parts of all accounts now.
func (k *accountKeeper) urgencies() (all []urgent) {
	for _, v := range k.book.Views(time.Now()) {
		all = append(all, urgent{v.Name, v.QuotaID, v.State, v.Paused, v.InUse})
	}
	return all
}

func (k *accountKeeper) write() {
	revision := k.book.Revision()
	if k.path == "" || revision == k.written || !k.serves() {
		return
	}
	urgent := k.urgencies()
	err := accounts.WriteFile(k.path, k.book.Save())
	if err != nil && !k.failed {
		k.logger.Warn("cannot write what is known of the accounts; a restart forgets it", "path", k.path, "error", err)
	}
	if k.failed = err != nil; !k.failed {
		k.written, k.urgent = revision, urgent
	}
}

// accountEvents logs the changes of the accounts' states, one entry a change.
type accountEvents struct {
	logger  *slog.Logger
	states  map[string]accounts.State
	inUse   string // the account in use; empty: none
	blocked bool
}

// begin takes the state of an earlier process for reported.
func (e *accountEvents) begin(b *accounts.Book) {
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
func (e *accountEvents) report(views []accounts.View, blocked bool) {
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
func (e *accountEvents) log(v accounts.View, before accounts.State) {
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
