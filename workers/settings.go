package workers

import (
	"context"
	"log/slog"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/workers/accounts"
)

// Settings are common to all workers of a pool. All durations must be positive.
type Settings struct {
	// MaxInflight bounds the turns in flight on one worker.
	MaxInflight int
	// HandshakeTimeout bounds dialling, initialize and model/list together.
	HandshakeTimeout time.Duration
	// ResetAfter is how long a worker must stay ready before its failures are
	// forgotten and systemd's restart delay is reset.
	ResetAfter time.Duration
	// Client introduces the proxy to the worker.
	Client appserver.Options
	// Runs reports whether the unit of the named worker runs, for a time when
	// systemd does not answer. Nil: it is unknown, and no worker is dialled then.
	Runs func(name string) bool
	// ResetFailed is ResetFailedUnit of org.freedesktop.systemd1.Manager; nil
	// where there is no systemd.
	ResetFailed func(ctx context.Context, unit string) error
	// Book has the known state of the accounts of all workers of the pool, which calls
	// Pool.AccountsChanged on each change. Nil: the pool makes one with rotation off.
	Book *accounts.Book
	// OnChange is called after every change of any worker, from any goroutine.
	OnChange func()
	// OnTurnEnd replaces OnChange when only a turn has ended on a ready worker.
	// Nil: OnChange is called.
	OnTurnEnd func()
	// Claim is called after a slot was acquired and before it is used. If other
	// processes have to know of the slot, Claim waits for them, calls
	// Pool.SetPeerLoads meanwhile, and returns true. It must not call Pool.Wake
	// before it has returned. Nil: there are no other processes.
	Claim  func() bool
	Logger *slog.Logger
}
