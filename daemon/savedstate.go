package daemon

import (
	"encoding/json"
	"time"

	"codex-proxy/daemon/follow"
	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/reload"
	"codex-proxy/daemon/textfile"
	"codex-proxy/dependencies"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/limits"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
)

// savedState is the state that a process leaves to its successor.
type savedState struct {
	Workers workers.Saved `json:"workers"`
	operators.KeyState
	// Textfile is the file that this process writes. The successor's settings may name
	// another one.
	Textfile string `json:"textfile,omitempty"`
	reload.Reloads
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
	// Codexes is the judgement of the codex in use.
	Codexes follow.Saved `json:"codexes"`
}

// maxSavedState leaves room for the rest of the packet, in bytes.
const maxSavedState = 120 << 10

// daemonState saves a savedState and restores one.
type daemonState struct {
	pool         *workers.Pool
	accountStore *accounts.Store
	server       *api.API
	counter      *inflight.Counter
	keys         *operators.KeyTable
	metrics      *reload.Metrics
	textfile     *textfile.Keeper

	dependencies *dependencies.Watch
	remotes      *remotewatch.Watch
	codexes      *follow.Follower

	withoutLoad bool // the predecessor reports none; set before this process has started
}

// save returns the state for a successor. The lock must be held until the successor
// serves.
func (e *daemonState) save(began time.Time) savedState {
	load, saved := e.counter.ForSuccessor(), e.accountStore.Save()
	i := savedState{
		Workers: e.pool.Save(), KeyState: e.keys.State(), Textfile: e.textfile.Path(),
		Reloads: e.metrics.Save(began),
		Load:    &load, KeyLevels: e.server.Limiter.KeyLevels(),
		Dependencies: e.dependencies.Save(), Remotes: e.remotes.Save(), Codexes: e.codexes.Save(),
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

func (i savedState) tooLarge() bool {
	raw, err := json.Marshal(i)
	return err == nil && len(raw) > maxSavedState
}

// restore takes over the state of a predecessor.
func (e *daemonState) restore(i savedState) error {
	e.pool.Restore(i.Workers)
	e.dependencies.Restore(i.Dependencies)
	e.remotes.Restore(i.Remotes)
	e.codexes.Restore(i.Codexes)
	if i.Accounts != nil { // 0.1.0 knows none
		e.accountStore.Restore(*i.Accounts, time.Now())
	}
	if e.withoutLoad = i.Load == nil; !e.withoutLoad {
		e.server.Limiter.RecallKeys(i.KeyLevels, i.Load.Keys)
		e.counter.SetBefore(*i.Load)
	}
	e.textfile.TakeOver(i.Textfile)
	e.metrics.Restore(i.Reloads)
	return e.keys.Restore(i.KeyState)
}
