package workers

import "codex-proxy/codex/appserver"

// Lease is the right to run one turn on one worker. Release must be called.
type Lease struct {
	Worker string
	Conn   *appserver.Conn

	slot      *slot
	release   func()
	annotator *annotator
	suspects  chan<- *appserver.Conn
}

// Annotate adds the request to the journal lines of the worker that name the
// thread, if the worker has a shim for this. It does not wait for the shim.
func (l *Lease) Annotate(thread, request string) {
	if l.annotator != nil {
		l.annotator.send(thread, request)
	}
}

// Release releases the slot as soon as codex has nothing more to do for it, see
// Hold; further calls do nothing. A nil lease has no slot.
func (l *Lease) Release() {
	if l != nil {
		l.release()
	}
}

// Hold keeps the slot while codex works for the lease, until release is called. A
// request may end sooner; no other request gets the slot until then. release may be
// called from any goroutine, and does not wait.
func (l *Lease) Hold() (release func()) { return l.slot.hold() }

// Decoded releases the room for images, once codex has decoded the images of the request.
func (l *Lease) Decoded() { l.slot.decoded() }

// Suspect reports that codex has left a turn without a message for too long. A
// goroutine of the worker then calls codex for something that costs nothing: a
// model that is silent delays no answer to that. After two calls in a row without
// any sign of life, from two suspicions, the worker is not ready any more, and its
// shim is asked to have it restarted.
func (l *Lease) Suspect() {
	select {
	case l.suspects <- l.Conn:
	default: // an examination is due already
	}
}
