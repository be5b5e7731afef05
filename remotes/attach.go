package remotes

import (
	"strings"
	"sync"
	"time"
)

// Client is an attached user.
type Client struct {
	User   string `json:"user"`
	Viewer bool   `json:"viewer,omitempty"` // may not answer approvals
	// Program is the client's own name and version, such as "codex-tui 0.171.0".
	Program string    `json:"program,omitempty"`
	Since   time.Time `json:"since"`
}

// Page is the name of a program that shows the questions of a turn for as long as it is open, even if nobody looks.
const Page = "codex-proxy-page"

// present means that the client may answer an approval, and that a person is there as far as one can know.
func (c Client) present() bool { return !c.Viewer && !strings.HasPrefix(c.Program, Page+" ") }

// Attach records that a client is attached until detach is called, which may be called again.
func (m *Manager) Attach(c Client) (detach func()) {
	if c.Since.IsZero() {
		c.Since = time.Now()
	}
	id := 0
	m.update(func(s *state) {
		id, s.nextID, s.since = s.nextID, s.nextID+1, time.Now()
		s.clients[id] = c
	})
	m.emit(Event{Kind: Attached, User: c.User, Viewer: c.Viewer})
	return sync.OnceFunc(func() {
		m.update(func(s *state) {
			delete(s.clients, id)
			s.since = time.Now()
			if c.present() && s.nobody() {
				s.left = s.since
			}
		})
		m.emit(Event{Kind: Detached, User: c.User, Viewer: c.Viewer})
		m.announce()
	})
}

// announce reports each turn that waits for a user while nobody is attached, once.
func (m *Manager) announce() {
	var waiting []string
	m.update(func(s *state) {
		if !s.nobody() {
			return
		}
		for id, t := range s.threads {
			if !t.waiting.IsZero() && !t.announced && !t.hidden {
				t.announced = true
				waiting = append(waiting, id)
			}
		}
	})
	for _, id := range waiting {
		m.emit(Event{Kind: Waiting, Thread: id})
	}
}
