package repositories

import (
	"slices"
	"sync"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// maxFetches bounds the units that fetch at the same time.
const maxFetches = 8

// mirrors has the mirrors that are in use, and the fetches that wait. Its methods are safe for concurrent use.
type mirrors struct {
	mu      sync.Mutex // guards the rest, and the fields of fetches; nothing else is locked under it
	inUse   map[string]*mirror
	waiting []*fetch
	running int // fetches
}

func newMirrors() *mirrors { return &mirrors{inUse: map[string]*mirror{}} }

// mirror is the state of a repository in use that the store does not have.
type mirror struct {
	holds int  // of requests: it is not removed meanwhile
	busy  bool // a unit fetches or removes it
	going bool // it is about to be removed, also if a request holds it
}

// fetch is an order to bring a mirror up to date. Requests wait for it; its unit does not depend on them.
type fetch struct {
	repository store.Repository
	owner      wire.Owner
	ref        string
	bundle     string // path of a bundle, or ""

	begun    bool
	requests int
	done     chan struct{} // closed when the next two are there
	commit   string        // of ref
	err      error
}

// use keeps a mirror from being removed until release is called, which may be called again. It may be about to be
// removed already: a fetch makes it anew then.
func (m *mirrors) use(key string) (going bool, release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.get(key)
	held.holds++
	return held.going, sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		held.holds--
		m.drop(key)
	})
}

// claim takes a mirror for its removal, if no request holds it.
func (m *mirrors) claim(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse[key] != nil {
		return false
	}
	m.inUse[key] = &mirror{busy: true, going: true}
	return true
}

// release ends a claim.
func (m *mirrors) release(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.get(key)
	left.busy, left.going = false, false
	m.drop(key)
}

func (m *mirrors) get(key string) *mirror {
	if m.inUse[key] == nil {
		m.inUse[key] = &mirror{}
	}
	return m.inUse[key]
}

// drop forgets a mirror that is not in use.
func (m *mirrors) drop(key string) {
	if one := m.inUse[key]; one != nil && *one == (mirror{}) {
		delete(m.inUse, key)
	}
}

// join returns a waiting fetch of the same repository and ref, both without a bundle, or else queues f.
func (m *mirrors) join(f *fetch) *fetch {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.waiting {
		if other.repository.Key == f.repository.Key && other.ref == f.ref && other.bundle == "" && f.bundle == "" {
			other.requests++
			return other
		}
	}
	f.done, f.requests = make(chan struct{}), 1
	m.waiting = append(m.waiting, f)
	return f
}

// leave ends the wait of a request. A fetch that has not begun does not begin without a request.
func (m *mirrors) leave(f *fetch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.requests--; f.requests == 0 && !f.begun {
		m.waiting = slices.DeleteFunc(m.waiting, func(other *fetch) bool { return other == f })
	}
}

// next takes a fetch from those that wait, or returns nil.
func (m *mirrors) next() *fetch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == maxFetches {
		return nil
	}
	i := slices.IndexFunc(m.waiting, func(f *fetch) bool {
		used := m.inUse[f.repository.Key]
		return used == nil || !used.busy
	})
	if i < 0 {
		return nil
	}
	f := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	f.begun, m.get(f.repository.Key).busy = true, true
	m.running++
	return f
}

// finish answers the requests that wait for a fetch.
func (m *mirrors) finish(f *fetch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.get(f.repository.Key).busy = false
	m.drop(f.repository.Key)
	close(f.done)
}
