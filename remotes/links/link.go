package links

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/remotes/authz"
)

const (
	// bufferSize is the size of each of the two buffers of a link. Their content passes to a successor in one
	// message.
	bufferSize = 16 << 10
	// endBound bounds the delivery of the last bytes after the end of one side.
	endBound = time.Second
)

// Codes of a close frame (RFC 6455, 7.4.1, and IANA's registry).
const (
	codePolicy  = 1008
	codeRestart = 1012
)

// order is the task of a link.
type order int

const (
	running order = iota
	ending        // one side has ended
	closes        // with a close frame
	passing       // to a successor
)

// conn is a TCP or unix connection.
type conn interface {
	net.Conn
	CloseWrite() error
}

// passport is the state of a link that a successor needs, in addition to its connections.
type passport struct {
	Remote   string       `json:"remote"`
	Key      string       `json:"key"`
	KeyID    string       `json:"key_id"`
	Viewer   bool         `json:"viewer,omitempty"`
	Since    time.Time    `json:"since"`
	Sent     atomic.Int64 `json:"-"` // bytes to the client
	Received atomic.Int64 `json:"-"`
	frames                // of the remote, as far as they were read
	// The bytes that were read from one side and are not written to the other one.
	ToClient []byte `json:"to_client,omitempty"`
	ToRemote []byte `json:"to_remote,omitempty"`
}

// link is one connection of a client to a remote. relay runs once, and all else without a note may be called from any
// goroutine.
type link struct {
	*passport
	settings Settings
	client   conn
	remote   conn

	mu          sync.Mutex
	now         order
	end, reason string // the first one
	farewell    []byte // a close frame
}

func (k *link) role() authz.Role {
	if k.Viewer {
		return authz.Viewer
	}
	return authz.Owner
}

// note records why the link ends.
func (k *link) note(end, reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end == "" {
		k.end, k.reason = end, reason
	}
}

// order gives an order, unless there is a later one, and wakes both copies.
func (k *link) order(o order) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now != running && o == passing || k.now == ending {
		return
	}
	k.now = o
	past := time.Unix(1, 0)
	_ = k.client.SetDeadline(past) // a closed connection fails at its next use
	_ = k.remote.SetDeadline(past)
}

// close ends the link with a close frame.
func (k *link) close(end string, code uint16, reason string) {
	k.mu.Lock()
	if k.farewell == nil {
		k.farewell = closing(code, reason)
	}
	k.mu.Unlock()
	k.note(end, reason)
	k.order(closes)
}

// arm sets a deadline, unless the link has another order than to run.
func (k *link) arm(set func(time.Time) error, deadline time.Time) (o order) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == running {
		_ = set(deadline)
	}
	return k.now
}

// passes reports whether relay has returned so that a successor goes on.
func (k *link) passes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now == passing && k.end == ""
}

// relay copies in both directions until one side has ended or another order comes.
func (k *link) relay() {
	var up sync.WaitGroup
	up.Go(k.toRemote)
	k.toClient()
	up.Wait()
}

// toRemote copies the bytes of the client.
func (k *link) toRemote() {
	buf := make([]byte, bufferSize)
	data := append(buf[:0], k.ToRemote...)
	k.ToRemote = nil
	for {
		if k.arm(k.remote.SetWriteDeadline, time.Time{}) != running {
			k.ToRemote = data
			return
		}
		n, err := k.remote.Write(data)
		if err != nil {
			k.ToRemote = data[n:]
			k.ended(endRemote, "the remote has closed", err)
			return
		}
		if k.arm(k.client.SetReadDeadline, time.Time{}) != running {
			return
		}
		n, err = k.client.Read(buf)
		k.Received.Add(int64(n))
		data = buf[:n]
		if err != nil {
			k.ToRemote = data
			if k.ended(endClient, "the client has closed", err) {
				_ = k.remote.CloseWrite()
			}
			return
		}
	}
}

// ended has one side as the end of the link, unless err is the wake of an order.
func (k *link) ended(end, reason string, err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	k.note(end, reason)
	k.order(ending)
	return true
}

// toClient copies the bytes of the remote, and pings a silent client.
func (k *link) toClient() {
	buf := make([]byte, bufferSize)
	data := append(buf[:0], k.ToClient...)
	k.ToClient = nil
	var asked question
	for {
		// A client that takes nothing for so long is gone.
		if k.arm(k.client.SetWriteDeadline, time.Now().Add(k.settings.Dead)) != running {
			k.ToClient = data
			return
		}
		n, err := k.client.Write(data)
		k.Sent.Add(int64(n))
		if err != nil {
			k.ToClient = data[n:]
			k.lost(k.ended(endClient, "the client has closed", err))
			return
		}
		if k.arm(k.remote.SetReadDeadline, time.Now().Add(k.settings.Keepalive)) != running {
			return
		}
		n, err = k.remote.Read(buf)
		data = buf[:n]
		k.follow(data)
		switch {
		case err == nil:
			asked = question{}
		case errors.Is(err, os.ErrDeadlineExceeded) && n == 0:
			if data, asked = k.ping(asked); k.gone(asked) {
				k.lost(false)
				return
			}
		default:
			k.ToClient = data
			if k.Closed { // it answers the close frame of the client, or its fault
				k.ended(endClient, "the client has closed", err)
			} else {
				k.ended(endRemote, "the remote has closed", err)
			}
			return
		}
	}
}

// follow follows the frames of the remote.
func (k *link) follow(data []byte) {
	for len(data) > 0 {
		data = data[k.next(data):]
	}
}

// question is the first ping without an answer; zero: all have one. Any bytes are an answer. They are counted,
// because the times of two goroutines can be compared only by the clock of the day, which may be stepped.
type question struct {
	at       time.Time
	received int64 // until then
}

// ping returns a ping, if no frame is open, and the first one that has no answer.
func (k *link) ping(asked question) ([]byte, question) {
	received := k.Received.Load()
	if received > asked.received {
		asked = question{}
	}
	if !k.whole() || k.Closed {
		return nil, asked
	}
	if asked.at.IsZero() {
		asked = question{time.Now(), received}
	}
	return []byte{pingFrame, 0}, asked
}

func (k *link) gone(asked question) bool {
	return !asked.at.IsZero() && time.Since(asked.at) > k.settings.Dead
}

// lost ends the link because the client is gone, unless the link has ended or has an order.
func (k *link) lost(known bool) {
	k.mu.Lock()
	busy := k.now != running
	k.mu.Unlock()
	if known || busy {
		return
	}
	k.note(endLost, "the client answers no more")
	k.order(ending)
}

// finish sends the client the rest of its bytes, with a close frame if the remote has sent none, and closes both
// connections. It follows relay.
func (k *link) finish() {
	defer k.client.Close()
	defer k.remote.Close()
	bound := time.Now().Add(endBound)
	_ = k.client.SetDeadline(bound) // a closed connection fails at its next use
	_ = k.remote.SetDeadline(bound)
	if k.end == endLost {
		return
	}
	n, err := k.client.Write(k.ToClient)
	k.Sent.Add(int64(n))
	if err != nil {
		return
	}
	if k.end == endClient {
		_, _ = io.Copy(k.client, k.remote) // the answer of the remote to the end
	} else if k.rest() && !k.Closed {
		_, _ = k.client.Write(k.words())
	}
	_ = k.client.CloseWrite()
	_, _ = io.Copy(io.Discard, k.client) // the close of a connection with unread bytes would discard the close frame
}

// rest sends the rest of the open frame, and reports whether no frame is open.
func (k *link) rest() bool {
	buf := make([]byte, bufferSize)
	for !k.whole() {
		n, err := k.remote.Read(buf)
		end := 0
		for end < n && (end == 0 || !k.whole()) {
			end += k.next(buf[end:n])
		}
		if _, failed := k.client.Write(buf[:end]); failed != nil || err != nil && !k.whole() {
			return false
		}
	}
	return true
}

// words is the close frame.
func (k *link) words() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.farewell == nil {
		return closing(codeRestart, "the remote restarts")
	}
	return k.farewell
}
