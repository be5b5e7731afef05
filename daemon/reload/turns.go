package reload

import (
	"codex-proxy/daemon/inflight"
	"codex-proxy/workers"
)

// Turns is the body of handoff.Turns.
type Turns struct {
	// Changes is the number of changes that the sender has put into force: drains and key
	// files.
	Changes uint64 `json:"drains"`
	// Inflight is the number of turns on each worker, including the processes before the
	// sender.
	Inflight map[string]int `json:"inflight"`
	// Load is nil from codex-proxy 0.1.0.
	Load *inflight.Load `json:"load,omitempty"`
}

// load returns the load that t reports.
func (t Turns) load() inflight.Load {
	if t.Load != nil {
		return *t.Load
	}
	l := inflight.Load{Workers: map[string]workers.Load{}}
	for name, n := range t.Inflight {
		l.Workers[name] = workers.Load{Turns: n}
	}
	return l
}

// load is the body of handoff.Load.
type load struct {
	Load *inflight.Load `json:"load"`
}
