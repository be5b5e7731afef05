package workers

import (
	"context"
	"log/slog"
	"time"

	"codex-proxy/proxy/appserver"
)

// Settings are common to all workers of a pool. All durations must be positive.
type Settings struct {
	// MaxInflight bounds the turns in flight on one worker.
	MaxInflight int
	// HandshakeTimeout bounds dialling, initialize and model/list together.
	HandshakeTimeout time.Duration
	// ResetAfter is how long a worker must stay ready before its restart
	// counter and with it systemd's restart ramp are reset.
	ResetAfter time.Duration
	// Client introduces us to the worker.
	Client appserver.Options
	// Runs reports whether the unit of the worker of that name runs, for a time when
	// systemd cannot be asked. Nil: that is unknown, and nothing is dialled then.
	Runs func(name string) bool
	// ResetFailed is ResetFailedUnit of org.freedesktop.systemd1.Manager; nil
	// where there is no systemd.
	ResetFailed func(ctx context.Context, unit string) error
	// OnChange is called after every change of any worker, from any goroutine.
	OnChange func()
	// OnTurnEnd is called in its place when only a turn has ended on a worker that
	// is ready. Nil: OnChange is.
	OnTurnEnd func()
	// Claim is called when a place was taken, and not used yet. If other processes
	// have to know of it, it waits until they do, calls Pool.SetPeerLoads meanwhile, and
	// returns true. It must not call Pool.Wake before it has returned. Nil: there are
	// no others.
	Claim  func() bool
	Logger *slog.Logger
}
