package shared

import "sync"

// lateTries is how often, once in a second, a change is undone that the database may still do although the call has ended.
const lateTries = 5

// undo undoes a change of the database. It may be called when there is nothing to undo.
type undo struct {
	call  func() error
	times int // that it is to be called with an answer
}

// undos are those that wait for the database.
type undos struct {
	mu   sync.Mutex
	list []undo
}

func (u *undos) add(more ...undo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, more...)
}

// late adds one for a change whose answer did not come in time. The database was up before it, which bounds their number
// while it is away.
func (u *undos) late(call func() error) { u.add(undo{call: call, times: lateTries}) }

// again calls them, until the database does not answer.
func (u *undos) again() {
	u.mu.Lock()
	list := u.list
	u.list = nil
	u.mu.Unlock()
	for i, one := range list {
		if away(one.call()) {
			u.add(list[i:]...)
			return
		}
		if one.times--; one.times > 0 {
			u.add(one)
		}
	}
}
