package dependencies

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"codex-proxy/probes"
)

// Events logs the changes of dependencies, each once. It belongs to one goroutine.
type Events struct {
	logger *slog.Logger
	// watchdog returns the time without a pass of the probe after which systemd kills the dependency; 0: unknown.
	watchdog func(name string) time.Duration
	logged   map[string]loggedEnd // by the name
}

// loggedEnd is the last end of a dependency that was logged.
type loggedEnd struct {
	at     time.Time // of the exit; zero before the first
	reason probes.DependencyReason
	since  time.Time // when the dependency was last ready; zero: it is ready, or was never
}

// NewEvents returns events of dependencies that have not changed yet.
func NewEvents(logger *slog.Logger, watchdog func(string) time.Duration) *Events {
	return &Events{logger: logger, watchdog: watchdog, logged: map[string]loggedEnd{}}
}

// Changed logs the change of a dependency from one state to another, unless it is a step on the way: the same end of a
// server has several. before has no reason for a dependency that was not known; one that is ready then, or stopped, has
// not changed.
func (e *Events) Changed(before, after probes.Dependency) {
	if before.Ready && !after.Ready {
		last := e.logged[after.Name]
		last.since = cmp.Or(last.since, after.Since)
		e.logged[after.Name] = last
	}
	switch {
	case after.Reason == before.Reason || before.Reason == "" && after.Reason == probes.DependencyStopped:
	case after.Ready:
		if before.Reason != "" {
			e.ready(after)
		}
	case after.Reason.Final() || after.Reason == probes.DependencyBackingOff:
		e.down(after)
	}
}

func (e *Events) ready(d probes.Dependency) {
	attrs := []any{"dependency", d.Name, "unit", d.Unit, "restarts", d.RestartsTotal}
	if since := e.logged[d.Name].since; !since.IsZero() {
		attrs = append(attrs, "elapsed_ms", d.Since.Sub(since).Milliseconds())
	}
	e.logger.Info("dependency ready", attrs...)
	delete(e.logged, d.Name)
}

// down logs an end, and a state that only an operator ends.
func (e *Events) down(d probes.Dependency) {
	end := loggedEnd{reason: d.Reason, since: e.logged[d.Name].since}
	if d.LastExit != nil {
		end.at = d.LastExit.At
	}
	if end == e.logged[d.Name] {
		return
	}
	e.logged[d.Name] = end
	attrs := []any{"dependency", d.Name, "unit", d.Unit, "reason", string(d.Reason), "detail", e.detail(d)}
	switch d.Reason {
	case probes.DependencyStartLimitHit:
		e.logger.Error("dependency is given up: systemd's start limit is hit", attrs...)
	case probes.DependencyRefused:
		e.logger.Error("dependency is refused: another process holds what it needs", attrs...)
	default:
		e.logger.Log(context.Background(), levelOfEnd(d.Reason), "dependency is down", attrs...)
	}
}

func levelOfEnd(reason probes.DependencyReason) slog.Level {
	switch reason {
	case probes.DependencyStopped: // by an operator
		return slog.LevelInfo
	case probes.DependencyBackingOff: // systemd mends it
		return slog.LevelWarn
	}
	return slog.LevelError
}

// detail describes why the dependency is down.
func (e *Events) detail(d probes.Dependency) string {
	switch {
	case d.Reason == probes.DependencyStopped:
		return "stopped"
	case d.Reason == probes.DependencyRefused || d.Reason == probes.DependencyInvalid:
		return cmp.Or(strings.TrimPrefix(d.StatusText, "Not started: "), d.LastExit.String())
	case d.LastExit != nil && d.LastExit.Result == "watchdog":
		return "did not answer for " + e.patience(d.Name) + ": systemd's watchdog killed it"
	case d.LastExit != nil && d.LastExit.Result == "timeout":
		return "was not ready within start_timeout, or did not end within stop_timeout: " + d.LastExit.String()
	}
	return d.LastExit.String()
}

func (e *Events) patience(name string) string {
	if bound := e.watchdog(name); bound > 0 {
		return fmt.Sprint(bound)
	}
	return "WatchdogSec="
}
