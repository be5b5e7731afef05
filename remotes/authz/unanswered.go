package authz

import "sync"

// unanswered counts the requests of one client that codex has not answered.
type unanswered struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // of wait
}

func (u *unanswered) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n += n
	u.tell()
}

// wait returns a channel that closes when all have an answer. It is called once.
func (u *unanswered) wait() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	none := make(chan struct{})
	u.none = none
	u.tell()
	return none
}

func (u *unanswered) tell() {
	if u.n <= 0 && u.none != nil {
		close(u.none)
		u.none = nil
	}
}
