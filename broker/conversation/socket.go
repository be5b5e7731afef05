package conversation

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/semaphore"

	"codex-proxy/internal/pulse"
)

const (
	// longestMessage bounds a message of the endpoint, in bytes. The model proxy ends an event of 16 MiB.
	longestMessage = 17 << 20
	// smallMessage is the size up to which a message needs no room.
	smallMessage = 256 << 10
	// mostRoom bounds the larger messages of all WebSockets that codex has not read yet, in bytes.
	mostRoom = 64 << 20
	// ahead is how many messages of an answer are read before codex takes them.
	ahead = 4
	// oldest is the age at which a WebSocket takes no request any more. OpenAI ends one after 60 minutes, also in the
	// middle of an answer.
	oldest = 50 * time.Minute
)

// received is a message of the endpoint, with the room that it takes.
type received struct {
	text []byte
	room int64
}

// socket is a WebSocket of one conversation. The mutex of Conversations guards its state.
type socket struct {
	of     digest
	conn   *websocket.Conn
	header http.Header   // of the answer to its upgrade, for codex
	events chan received // of an answer; closed at the end of the connection
	failed error         // why it has ended, once events is closed
	end    context.CancelCauseFunc
	room   *semaphore.Weighted // of all WebSockets

	made  time.Time
	pulse pulse.Pulse
	busy  atomic.Bool // it has a request
	used  time.Time
	has   *known // nil: nothing
}

// over reports whether the connection has ended. It drops the messages that follow an answer.
func (s *socket) over() bool {
	for {
		select {
		case m, open := <-s.events:
			if !open {
				return true
			}
			s.release(m)
		default:
			return false
		}
	}
}

// free ends the use of the WebSocket by a request.
func (s *socket) free() {
	s.busy.Store(false)
	s.over()
}

// release gives the room of a message back after codex has read it.
func (s *socket) release(m received) {
	if m.room > 0 {
		s.room.Release(m.room)
	}
}

var (
	errBinary = errors.New("the endpoint sent a binary message")
	errLong   = errors.New("the endpoint sent a message of more than 17 MiB")
	errIdle   = errors.New("the endpoint sent an error without a request")
)

// read passes on the messages of the endpoint, and answers its pings, until the connection ends.
func (s *socket) read(ctx context.Context) {
	defer close(s.events)
	defer func() { _ = s.conn.CloseNow() }()
	s.conn.SetReadLimit(-1) // receiveText has the bound
	for {
		m, err := s.receive(ctx)
		idle := !s.busy.Load()
		if err == nil && idle && kindOf(m.text) == "error" {
			err = errIdle
		}
		if err == nil && !idle {
			err = s.pass(ctx, m)
		} else {
			s.release(m)
		}
		if err != nil {
			s.failed = err
			return
		}
	}
}

// pass gives a message to the answer.
func (s *socket) pass(ctx context.Context, m received) error {
	defer s.pulse.Hold()()
	select {
	case s.events <- m:
		return nil
	case <-ctx.Done():
		s.release(m)
		return context.Cause(ctx)
	}
}

// receive reads a message.
func (s *socket) receive(ctx context.Context) (received, error) {
	m, err := s.receiveText(ctx)
	if err != nil {
		s.release(m)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return received{}, err
	}
	return m, nil
}

// receiveText reads a message, of which a large one waits for room.
func (s *socket) receiveText(ctx context.Context) (m received, err error) {
	kind, from, err := s.conn.Reader(ctx)
	if err != nil {
		return m, err
	}
	if kind != websocket.MessageText {
		return m, errBinary
	}
	from = s.pulse.Reader(from)
	if m.text, err = io.ReadAll(io.LimitReader(from, smallMessage)); err != nil || len(m.text) < smallMessage {
		return m, err
	}
	if err := s.reserve(ctx); err != nil {
		return m, err
	}
	m.room = longestMessage
	rest, err := io.ReadAll(io.LimitReader(from, longestMessage-smallMessage+1))
	if err != nil {
		return m, err
	}
	m.text = slices.Concat(m.text, rest)
	if len(m.text) > longestMessage {
		return m, errLong
	}
	s.room.Release(longestMessage - int64(len(m.text)))
	m.room = int64(len(m.text))
	return m, nil
}

// reserve waits for the room of the largest message.
func (s *socket) reserve(ctx context.Context) error {
	defer s.pulse.Hold()()
	return s.room.Acquire(ctx, longestMessage)
}

// next is the next message of an answer. Its room is to be released.
func (s *socket) next(ctx context.Context) (received, error) {
	if ctx.Err() != nil {
		return received{}, context.Cause(ctx)
	}
	select {
	case m, open := <-s.events:
		if !open {
			return received{}, s.failed
		}
		return m, nil
	case <-ctx.Done():
		return received{}, context.Cause(ctx)
	}
}
