package daemon

import (
	"context"
	"time"

	"codex-proxy/daemon/health"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/probes"
)

// announcer publishes the state of this process to systemd.
type announcer struct {
	startTimeout time.Duration
	notifier     *notify.Notifier
	health       *health.Health
	predecessor  *handoff.Predecessor
	state        *daemonState
	lastFailure  func() string // of a reload
	checkAliases func()        // logs aliases without a model
	changed      <-chan struct{}
	started      chan struct{} // closed when this process serves, and READY=1 is sent
}

// run publishes every change until ctx ends. It sends READY=1 when a worker is ready, or
// when no worker is expected to become ready by itself soon: then the status has the
// reason.
func (a *announcer) run(ctx context.Context) error {
	patience := time.NewTimer(a.startTimeout)
	defer patience.Stop()
	impatient, started, last := false, false, ""
	for {
		report, settled := a.health.Look()
		status := health.StatusLine(report) + a.lastFailure()
		a.checkAliases()
		switch {
		case !started && (impatient || settled):
			started = true
			if err := a.start(report, status); err != nil {
				return err
			}
		case status != last: // systemd sends every STATUS to the whole bus
			a.notifier.Status(status)
		}
		last = status
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
		case <-patience.C:
			impatient = true
		}
	}
}

// start makes this the unit's main process, and lets it serve.
func (a *announcer) start(report probes.Report, status string) error {
	if err := a.takeOver(report); err != nil {
		return err
	}
	a.notifier.Ready(status)
	if a.predecessor != nil {
		// The watchdog's clock runs on across a reload: many in a row, each before the
		// first pass, would look like silence.
		a.notifier.Ping()
	}
	a.predecessor.Taken() // before started lets other goroutines send messages to it
	close(a.started)
	return nil
}

// restore replaces the predecessor.
func (a *announcer) takeOver(report probes.Report) error {
	if a.predecessor == nil {
		return nil
	}
	var i savedState
	ready := report.Health.Readiness
	serves := ready.Ready || ready.Reason == probes.QuotaExhausted // that is no fault of the new settings
	if err := a.predecessor.Ready(serves, health.StatusLine(report), &i); err != nil {
		return err
	}
	err := a.state.restore(i)
	a.state.keys.LogUnusable()
	return err
}
