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
// parameters: the same instructions and tools. So the end of such a turn has the thread of the next one started, and
// after several turns at once, the threads of as many.

// fingerprint is a hash of the parameters that a thread is started with.
type fingerprint [sha256.Size]byte

const (
	// maxKnown is how many fingerprints are remembered; a thread with another one counts as unique.
	maxKnown = 64
	// maxPrestartAge bounds the age of a thread at the start of its turn: codex may have recorded facts in it that go
	// out of date, such as the day. A burst is remembered for as long.
	maxPrestartAge = 10 * time.Minute
	// burstSpan is the time in which turns start that count as one burst.
	burstSpan = 250 * time.Millisecond
	// hungStart is after how long a start does not hold up others any more: codex may never answer it.
	hungStart = 10 * time.Second
)

// prestart holds the threads that were started before a turn needs them. It is part of state.
type prestart struct {
	known   []pattern      // of the last threads, the newest last
	threads []prestarted   // the oldest first
	waiting []*threadStart // of threads that codex does not start yet
	asked   time.Time      // since when codex starts a thread that no turn needs yet; zero: it starts none
	turns   int            // that are starting
	turned  time.Time      // when the last of them began
}

// pattern is how often a fingerprint is used at once.
type pattern struct {
	fingerprint fingerprint
	recent      []time.Time // the starts within burstSpan
	burst       int         // the most of them
	at          time.Time   // of that burst
}

// prestarted is a thread that waits for its turn.
type prestarted struct {
	fingerprint fingerprint
	id          string // empty until codex has started the thread
	since       time.Time
}

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

// remember reports whether a thread with the fingerprint was started before, and remembers this start.
func (p *prestart) remember(f fingerprint) (known bool) {
	last := pattern{fingerprint: f}
	if i := p.index(f); i >= 0 {
		last, known = p.known[i], true
		p.known = slices.Delete(p.known, i, i+1)
	}
	last.start(time.Now())
	if p.known = append(p.known, last); len(p.known) > maxKnown {
		p.known = slices.Delete(p.known, 0, 1)
	}
	return known
}

func (p *prestart) index(f fingerprint) int {
	return slices.IndexFunc(p.known, func(k pattern) bool { return k.fingerprint == f })
}

// start counts a start.
func (k *pattern) start(now time.Time) {
	k.recent = slices.DeleteFunc(k.recent, func(at time.Time) bool { return now.Sub(at) > burstSpan })
	if len(k.recent) < maxKnown {
		k.recent = append(k.recent, now)
	}
	if n := len(k.recent); n >= k.burst || now.Sub(k.at) > maxPrestartAge {
		k.burst, k.at = n, now
	}
}

// burst is how many turns with the fingerprint may start at once.
func (p *prestart) burst(f fingerprint) int {
	if i := p.index(f); i >= 0 {
		return p.known[i].burst
	}
	return 1
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

// reserve adds an entry for a thread like start's, unless there are as many as turns can use. If limit is reached, it
// removes another thread, of a fingerprint that has more.
func (p *prestart) reserve(start *threadStart, limit int) (removed string) {
	n := p.count(start.fingerprint)
	if n >= p.burst(start.fingerprint) {
		return ""
	}
	if len(p.threads) >= limit {
		oldest := slices.IndexFunc(p.threads, func(t prestarted) bool {
			return t.id != "" && p.count(t.fingerprint) > n
		})
		if oldest < 0 {
			return ""
		}
		removed = p.threads[oldest].id
		p.threads = slices.Delete(p.threads, oldest, oldest+1)
	}
	p.threads = append(p.threads, prestarted{fingerprint: start.fingerprint})
	p.waiting = append(p.waiting, start)
	return removed
}

// next returns the thread that codex may start now, one at a time, and none while a turn starts, as a client waits for
// that; nil: there is none.
func (p *prestart) next() *threadStart {
	busy := p.turns > 0 && time.Since(p.turned) < hungStart || time.Since(p.asked) < hungStart
	if busy || len(p.waiting) == 0 {
		return nil
	}
	first := p.waiting[0]
	p.waiting = slices.Delete(p.waiting, 0, 1)
	p.asked = time.Now()
	return first
}

// started fills in the entry of a thread that codex has started; an empty id removes the entry.
func (p *prestart) started(f fingerprint, id string) {
	p.asked = time.Time{}
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
	placed      bool // in an environment, which may end before another turn
}

// maxKeptStart is the largest threadStart that a running turn keeps to prestart the next thread, in bytes.
const maxKeptStart = 256 << 10

func (s *threadStart) worthKeeping() bool {
	return s != nil && s.known && !s.placed && len(s.params) <= maxKeptStart
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
	if e := r.Environment; e != nil {
		params.Environments = []wire.ThreadEnvironment{{ID: e.ID, Dir: e.Dir}}
	}
	start := &threadStart{params: params.AppendJSON(make([]byte, 0, params.Size())), placed: r.Environment != nil}
	start.fingerprint = sha256.Sum256(start.params)
	return start
}

// claimPrestarted returns a thread that was started with the same parameters, if there is one. Until hasStarted, codex
// starts no thread that no turn needs.
func (c *Conn) claimPrestarted(start *threadStart) (id string) {
	if c.opts.Prestart == 0 {
		return ""
	}
	var expired []string
	c.update(func(s *state) {
		s.prestart.turns, s.prestart.turned = s.prestart.turns+1, time.Now()
		start.known = s.prestart.remember(start.fingerprint)
		id, expired = s.prestart.claim(start.fingerprint)
	})
	for _, thread := range expired {
		c.unsubscribe(thread, nil)
	}
	return id
}

// hasStarted ends the start of a turn, or the attempt.
func (c *Conn) hasStarted() {
	if c.opts.Prestart == 0 {
		return
	}
	c.update(func(s *state) { s.prestart.turns-- })
	c.startWaiting()
}

// prestartNext has a thread like the turn's started, if it is likely to be used. It does not wait.
func (t *Turn) prestartNext() {
	if t.next == nil || !t.next.known {
		return
	}
	removed := ""
	t.conn.update(func(s *state) { removed = s.prestart.reserve(t.next, t.conn.opts.Prestart) })
	if removed != "" {
		t.conn.unsubscribe(removed, nil)
	}
	t.conn.startWaiting()
}

// startWaiting has codex start the next thread that waits.
func (c *Conn) startWaiting() {
	var next *threadStart
	c.update(func(s *state) { next = s.prestart.next() })
	if next != nil {
		c.Post("thread/start", next.params, func(r rpc.Reply) { c.prestarted(next.fingerprint, r) })
	}
}

// prestarted handles the reply. A refused start is not repeated: the next turn starts its thread itself.
func (c *Conn) prestarted(f fingerprint, r rpc.Reply) {
	var resp wire.ThreadStarted
	if r.Decode(&resp) != nil {
		resp.Thread.ID = ""
	}
	c.update(func(s *state) { s.prestart.started(f, resp.Thread.ID) })
	c.startWaiting()
}
