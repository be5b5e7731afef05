package daemon

import (
	"encoding/json"
	"time"

	"codex-proxy/daemon/inflight"
	"codex-proxy/dependencies"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/limits"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
)

// inheritance is the state that a process leaves to its successor.
type inheritance struct {
	Workers workers.Saved `json:"workers"`
	keyState
	// Textfile is the file that this process writes. The successor's settings may name
	// another one.
	Textfile string `json:"textfile,omitempty"`
	// Handoffs and FailedHandoffs are the numbers of reloads.
	Handoffs       uint64 `json:"handoffs"`
	FailedHandoffs uint64 `json:"failed_handoffs"`
	// HandoffBegan is the time at which this reload was requested.
	HandoffBegan time.Time `json:"handoff_began,omitzero"`
	// Load is the load of this process and its predecessors; nil in 0.1.0.
	Load *inflight.Load `json:"load,omitempty"`
	// KeyLevels are how much of their limits per minute the keys have used up.
	KeyLevels map[string]limits.KeyLevel `json:"key_levels,omitempty"`
	// Accounts is the known state of the accounts. The file has it, too, but may be older.
	Accounts *accounts.Saved `json:"accounts,omitempty"`
	// Dependencies are the counts of the dependencies.
	Dependencies dependencies.Saved `json:"dependencies,omitempty"`
	// Remotes are the counts of the remotes.
	Remotes remotewatch.Saved `json:"remotes,omitempty"`
}

// maxInheritance leaves room for the rest of the packet, in bytes.
const maxInheritance = 120 << 10

// estate leaves an inheritance and takes one over.
type estate struct {
	pool     *workers.Pool
	book     *accounts.Book
	server   *api.API
	ledger   *inflight.Ledger
	keys     *keyTable
	metrics  *metrics
	textfile *textfileKeeper

	dependencies *dependencies.Watch
	remotes      *remotewatch.Watch

	withoutLoad bool // the predecessor reports none; set before this process has started
}

// leave returns the state for a successor. The gate must be closed until the successor
// serves.
func (e *estate) leave(began time.Time) inheritance {
	load, saved := e.ledger.ForSuccessor(), e.book.Save()
	i := inheritance{
		Workers: e.pool.Save(), keyState: e.keys.state(), Textfile: e.textfile.path,
		Handoffs:       e.metrics.handoffs.done.Load() + 1, // with the one under way
		FailedHandoffs: e.metrics.handoffs.failed.Load(), HandoffBegan: began,
		Load: &load, KeyLevels: e.server.Limiter.KeyLevels(),
		Dependencies: e.dependencies.Save(), Remotes: e.remotes.Save(),
	}
	if i.tooLarge() {
		i.Remotes = nil // of hundreds: their counts begin anew, and the reload succeeds
	}
	if i.tooLarge() {
		i.KeyLevels = nil // of many hundred keys: they begin anew, and the reload succeeds
	}
	if i.Accounts = &saved; i.tooLarge() {
		saved.Rotations = nil // of hundreds in the last minute: the file has them
	}
	if i.tooLarge() {
		i.Accounts = nil // of many hundred accounts: likewise
	}
	return i
}

func (i inheritance) tooLarge() bool {
	raw, err := json.Marshal(i)
	return err == nil && len(raw) > maxInheritance
}

// takeOver takes over the state of a predecessor.
func (e *estate) takeOver(i inheritance) error {
	e.pool.Restore(i.Workers)
	e.dependencies.Restore(i.Dependencies)
	e.remotes.Restore(i.Remotes)
	if i.Accounts != nil { // 0.1.0 knows none
		e.book.Restore(*i.Accounts, time.Now())
	}
	if e.withoutLoad = i.Load == nil; !e.withoutLoad {
		e.server.Limiter.RecallKeys(i.KeyLevels, i.Load.Keys)
		e.ledger.SetBefore(*i.Load)
	}
	e.textfile.before = i.Textfile
	e.metrics.handoffs.done.Store(i.Handoffs)
	e.metrics.handoffs.failed.Store(i.FailedHandoffs)
	if !i.HandoffBegan.IsZero() { // another version may not send it
		e.metrics.took.Set(max(0, time.Since(i.HandoffBegan).Seconds()))
	}
	return e.keys.inherit(i.keyState)
}
