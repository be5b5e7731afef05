package appserver

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// A third of codex's work on a turn without history is to start its thread, and most turns use threads with the same
// parameters: the same instructions and tools. So the end of such a turn starts the thread of the next one.

// fingerprint is a hash of the parameters that a thread is started with.
type fingerprint [sha256.Size]byte

// maxKnown is how many fingerprints are remembered; a thread with another one counts as unique.
const maxKnown = 64

// prestart holds the threads that were started before a turn needs them. It is part of state.
type prestart struct {
	known   []fingerprint // of the last threads, the newest last
	threads []prestarted  // the oldest first
}

// prestarted is a thread that waits for its turn.
type prestarted struct {
	fingerprint fingerprint
	id          string // empty while codex starts the thread
	since       time.Time
}

// maxPrestartAge bounds the age of a thread at the start of its turn: codex may have recorded facts in it that go out
// of date, such as the day.
const maxPrestartAge = 10 * time.Minute

// claim removes and returns a thread with the fingerprint, if there is one, and the threads that have become too old.
func (p *prestart) claim(f fingerprint) (id string, expired []string) {
	p.threads = slices.DeleteFunc(p.threads, func(t prestarted) bool {
		switch {
		case t.id == "":
			return false
		case time.Since(t.since) > maxPrestartAge:
			expired = append(expired, t.id)
			return true
		case id == "" && t.fingerprint == f:
			id = t.id
			return true
		}
		return false
	})
	return id, expired
}

// remember reports whether a thread with the fingerprint was started before, and remembers the fingerprint.
func (p *prestart) remember(f fingerprint) (known bool) {
	if i := slices.Index(p.known, f); i >= 0 {
		p.known, known = slices.Delete(p.known, i, i+1), true
	}
	if p.known = append(p.known, f); len(p.known) > maxKnown {
		p.known = slices.Delete(p.known, 0, 1)
	}
	return known
}

// count is how many threads have the fingerprint.
func (p *prestart) count(f fingerprint) (n int) {
	for _, t := range p.threads {
		if t.fingerprint == f {
			n++
		}
	}
	return n
}

// reserve adds an entry for a thread with the fingerprint, unless there are as many as turns can use. It removes
// another thread if limit is reached.
func (p *prestart) reserve(f fingerprint, running, limit int) (reserved bool, removed string) {
	if p.count(f) > running {
		return false, ""
	}
	if len(p.threads) >= limit {
		oldest := slices.IndexFunc(p.threads, func(t prestarted) bool { return t.id != "" })
		if oldest < 0 || p.threads[oldest].fingerprint == f {
			return false, ""
		}
		removed = p.threads[oldest].id
		p.threads = slices.Delete(p.threads, oldest, oldest+1)
	}
	p.threads = append(p.threads, prestarted{fingerprint: f})
	return true, removed
}

// started fills in the entry of a thread that codex has started; an empty id removes the entry.
func (p *prestart) started(f fingerprint, id string) {
	i := slices.IndexFunc(p.threads, func(t prestarted) bool { return t.fingerprint == f && t.id == "" })
	if id != "" {
		p.threads[i].id, p.threads[i].since = id, time.Now()
	} else {
		p.threads = slices.Delete(p.threads, i, i+1)
	}
}

// threadStart holds the parameters of a thread/start.
type threadStart struct {
	params      json.RawMessage
	fingerprint fingerprint
	known       bool // other threads were started with the same parameters
}

// maxKeptStart is the largest threadStart that a running turn keeps to prestart the next thread, in bytes.
const maxKeptStart = 256 << 10

func (s *threadStart) worthKeeping() bool {
	return s != nil && s.known && len(s.params) <= maxKeptStart
}

// newThreadStart has the keys of config.toml of the connection.
func newThreadStart(r TurnRequest, config map[string]string) *threadStart {
	params := wire.ThreadStart{
		Ephemeral:             true,
		Model:                 r.Model,
		BaseInstructions:      r.BaseInstructions,
		ExperimentalRawEvents: true,
		ServiceTier:           r.ServiceTier,
		DynamicTools:          wireTools(r.Tools),
	}
	if r.Verbosity != "" || len(config) > 0 {
		params.Config = wire.Config{}
		maps.Copy(params.Config, config)
	}
	if r.Verbosity != "" {
		params.Config[wire.ModelVerbosity] = r.Verbosity
	}
	start := &threadStart{params: params.AppendJSON(make([]byte, 0, params.Size()))}
	start.fingerprint = sha256.Sum256(start.params)
	return start
}

// claimPrestarted returns a thread that was started with the same parameters, if there is one.
func (c *Conn) claimPrestarted(start *threadStart) (id string) {
	if c.opts.Prestart == 0 {
		return ""
	}
	var expired []string
	c.update(func(s *state) {
		start.known = s.prestart.remember(start.fingerprint)
		id, expired = s.prestart.claim(start.fingerprint)
	})
	for _, thread := range expired {
		c.unsubscribe(thread, nil)
	}
	return id
}

// prestartNext starts a thread like the turn's, if it is likely to be used. It does not wait.
func (t *Turn) prestartNext() {
	if t.next == nil || !t.next.known {
		return
	}
	reserved, removed := false, ""
	t.conn.update(func(s *state) {
		reserved, removed = s.prestart.reserve(t.next.fingerprint, len(s.threads), t.conn.opts.Prestart)
	})
	if removed != "" {
		t.conn.unsubscribe(removed, nil)
	}
	if reserved {
		t.conn.Post("thread/start", t.next.params, func(r rpc.Reply) { t.conn.prestarted(t.next.fingerprint, r) })
	}
}

// prestarted handles the reply. A refused start is not repeated: the next turn starts its thread itself.
func (c *Conn) prestarted(f fingerprint, r rpc.Reply) {
	var resp wire.ThreadStarted
	if r.Decode(&resp) != nil {
		resp.Thread.ID = ""
	}
	c.update(func(s *state) { s.prestart.started(f, resp.Thread.ID) })
}
