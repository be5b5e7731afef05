package probes

import (
	"maps"
	"sync"
	"time"
)

// Report is the JSON of /livez, /readyz and /healthz.
type Report struct {
	OK      bool     `json:"ok"`
	Health  Health   `json:"health"`
	Workers []Worker `json:"workers"`
	Queue   Queue    `json:"queue"`
	// Dependencies are the dependencies of the snapshot.
	Dependencies []Dependency `json:"dependencies,omitempty"`
	// Remotes are the remotes of the snapshot, for operators alone.
	Remotes []Remote `json:"remotes,omitempty"`
	// Brokers are the brokers of the snapshot, for operators alone.
	Brokers []Broker `json:"brokers,omitempty"`
	// Database is the database of the snapshot.
	Database *Database `json:"database,omitempty"`
	// NotReady is the total time that the service was not ready, by reason.
	NotReady map[Reason]time.Duration `json:"-"`
}

// Health holds the two verdicts.
type Health struct {
	Readiness Readiness `json:"readiness"`
	Liveness  Liveness  `json:"liveness"`
}

// Readiness is whether the service would serve a request now. Since is when Ready
// took its value, LastChangeAt when Ready or Reason last changed.
type Readiness struct {
	Ready        bool      `json:"ready"`
	Reason       Reason    `json:"reason"`
	Since        time.Time `json:"since"`
	LastChangeAt time.Time `json:"last_change_at"`
	Details      string    `json:"details"`
}

// Liveness is whether the service can still get ready by itself. Ready implies Live.
type Liveness struct {
	Live   bool      `json:"live"`
	Reason Reason    `json:"reason"`
	Since  time.Time `json:"since"`
}

// Flip is one change of readiness.
type Flip struct {
	Ready   bool
	Reason  Reason
	Details string
	Elapsed time.Duration // how long the previous value had held
}

// Tracker turns snapshots into reports and records since when each verdict holds.
// It is safe for concurrent use.
type Tracker struct {
	onFlip func(Flip)

	mu     sync.Mutex
	health Health
	latest time.Time
	spent  map[Reason]time.Duration // not ready
}

// NewTracker begins at now with a service that is starting. The tracker calls
// onFlip for every change of readiness, in order, under its lock: onFlip must be
// quick and must not call the tracker.
func NewTracker(now time.Time, onFlip func(Flip)) *Tracker {
	return &Tracker{onFlip: onFlip, latest: now, spent: map[Reason]time.Duration{}, health: Health{
		Readiness: Readiness{Reason: Starting, Since: now, LastChangeAt: now},
		Liveness:  Liveness{Live: true, Reason: Starting, Since: now},
	}}
}

// Observe judges a snapshot. A snapshot older than one already judged changes no
// record, so two readers cannot make readiness flap.
func (t *Tracker) Observe(s Snapshot) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.At.Before(t.latest) {
		if r := t.health.Readiness; !r.Ready {
			t.spent[r.Reason] += s.At.Sub(t.latest)
		}
		t.latest = s.At
		t.observeReadiness(s)
		t.observeLiveness(s)
	}
	return Report{
		OK: t.health.Readiness.Ready, Health: t.health,
		Workers: s.Workers, Queue: s.Queue, Dependencies: s.Dependencies, Remotes: s.Remotes, Brokers: s.Brokers,
		Database: s.Database,
		NotReady: maps.Clone(t.spent),
	}
}

func (t *Tracker) observeReadiness(s Snapshot) {
	r := &t.health.Readiness
	reason, details := ReadinessOf(s)
	ready := reason == Ready || reason == QuotaExhausted && s.ReadyWhenExhausted
	if reason != r.Reason {
		r.LastChangeAt = s.At
	}
	if ready != r.Ready {
		t.onFlip(Flip{Ready: ready, Reason: reason, Details: details, Elapsed: s.At.Sub(r.Since)})
		r.Since = s.At
	}
	r.Ready, r.Reason, r.Details = ready, reason, details
}

func (t *Tracker) observeLiveness(s Snapshot) {
	l := &t.health.Liveness
	live, reason := LivenessOf(s)
	if live != l.Live {
		l.Since = s.At
	}
	l.Live, l.Reason = live, reason
}
