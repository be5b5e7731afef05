package runner

import (
	"time"

	"codex-proxy/runner/store"
)

// The methods of this file write events to the journal, where internal/journal explains each message, and count it.
// CODEX_SESSION, CODEX_COMMAND and CODEX_UNIT of the journal are the attributes session, command and unit.

// recordMade records a new session.
func (r *Runner) recordMade(id, owner string, commands int) {
	r.Logger.Info("a session was made", "session", id, "owner", owner, "commands", commands)
}

// recordStarted records that a command runs.
func (r *Runner) recordStarted(c *run) {
	if !c.begun.IsZero() {
		r.metrics.start.Observe(time.Since(c.begun).Seconds())
	}
	r.Logger.Info("a command has started", "session", c.Session, "command", c.Number, "unit", c.unit())
}

// recordEnded records the end of a command, which may have waited in the queue all the time.
func (r *Runner) recordEnded(k key, unit string, e store.Ending) {
	r.metrics.ended.WithLabelValues(string(e.Outcome.Word)).Inc()
	r.metrics.output.Add(float64(e.Usage.Output))
	r.Logger.Info("a command has ended", "session", k.session, "command", k.number, "unit", unit,
		"outcome", string(e.Outcome.Word), "text", e.Outcome.Text, "invocation", e.Invocation)
}

// recordClosed records the end of a session.
func (r *Runner) recordClosed(id string) { r.Logger.Info("a session is closed", "session", id) }

// recordFetch records a fetch of the repository with that key, which took so long; failure is nil, or why there is
// none.
func (r *Runner) recordFetch(key, name string, took time.Duration, failure error) {
	r.metrics.fetches.WithLabelValues(result(failure)).Inc()
	if failure != nil {
		r.Logger.Warn("a repository could not be fetched", "repository", name, "key", key, "took", took, "error",
			failure)
		return
	}
	r.Logger.Info("a repository was fetched", "repository", name, "key", key, "took", took)
}

// recordBuild records a build of the environment with that key.
func (r *Runner) recordBuild(key, provider string, took time.Duration, failure error) {
	r.metrics.builds.WithLabelValues(result(failure)).Inc()
	if failure != nil {
		r.Logger.Warn("an environment could not be built", "environment", key, "provider", provider, "took", took,
			"error", failure)
		return
	}
	r.Logger.Info("an environment was built", "environment", key, "provider", provider, "took", took)
}

// recordHit counts a command that found its environment.
func (r *Runner) recordHit() { r.metrics.hits.Inc() }

// Evicted is a kind of thing that was removed to make room.
type Evicted string

// The things that a Runner keeps as long as there is room.
const (
	EvictedWorkspace   Evicted = "workspace"
	EvictedRepository  Evicted = "repository"
	EvictedEnvironment Evicted = "environment"
)

// recordEviction records that something was removed to make room. name is its key or number, bytes its size.
func (r *Runner) recordEviction(what Evicted, name string, bytes int64) {
	r.metrics.evictions.WithLabelValues(string(what)).Inc()
	r.Logger.Info("something unused was removed to make room", "kind", string(what), "name", name, "bytes", bytes)
}

func result(failure error) string {
	if failure != nil {
		return resultFailed
	}
	return resultOK
}
