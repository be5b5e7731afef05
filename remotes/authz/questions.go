package authz

import (
	"slices"
	"sync"
)

// questionLimit bounds the requests of codex that a client may still answer. The oldest are forgotten: codex repeats
// an open approval when a client resumes its thread.
const questionLimit = 4096

// questions are the requests of codex that one client has been sent: it answers these, and no others.
type questions struct {
	mu  sync.Mutex
	ids []string
}

func (q *questions) add(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ids) == questionLimit {
		q.ids = slices.Delete(q.ids, 0, questionLimit/2)
	}
	q.ids = append(q.ids, id)
}

// take reports whether the client was sent that request, and has not answered it.
func (q *questions) take(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.ids, id)
	if i >= 0 {
		q.ids = slices.Delete(q.ids, i, i+1)
	}
	return i >= 0
}
