package dispatch

import "codex-proxy/codex/appserver"

// Lease is the right to run one turn on one worker. Release must be called.
type Lease struct {
	Worker string
	Conn   *appserver.Conn
	Codex  Codex
	Slot

	release func()
}

// Slot is the part of its worker's capacity that a lease uses.
type Slot interface {
	// Bind makes the turn hold the slot while codex works for it: the request may end
	// sooner, and no other request gets the slot until then. It also adds the request to
	// the journal lines of the worker that name the turn's thread, if the worker has a
	// shim for this; it does not wait for the shim.
	Bind(turn *appserver.TurnRequest, request string)
	// Decoded releases the room for images, once codex has decoded the images of the request.
	Decoded()
	// Suspect reports that codex has left a turn without a message for too long. A
	// goroutine of the worker then calls codex for something that costs nothing: a
	// model that is silent delays no answer to that. After two calls in a row without
	// any sign of life, from two suspicions, the worker is not ready any more, and its
	// shim is asked to have it restarted.
	Suspect()
	// Release is Lease.Release, called once.
	Release()
}

// NewLease makes a lease of a slot that was acquired on the worker.
func NewLease(worker string, conn *appserver.Conn, slot Slot) *Lease {
	return &Lease{Worker: worker, Conn: conn, Slot: slot, release: slot.Release}
}

// Release releases the slot as soon as codex has nothing more to do for it, see
// Bind; further calls do nothing. A nil lease has no slot.
func (l *Lease) Release() {
	if l != nil {
		l.release()
	}
}
