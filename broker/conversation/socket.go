package conversation

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// longestMessage bounds a message of the endpoint, in bytes. The model proxy has a smaller bound for an event.
const longestMessage = 32 << 20

// ahead is how many messages of an answer are read before codex takes them.
const ahead = 4

// socket is a WebSocket of one conversation. The mutex of Conversations guards its state.
type socket struct {
	of     digest
	conn   *websocket.Conn
	header http.Header // of the answer to its upgrade, for codex
	events chan []byte // of an answer; closed at the end of the connection
	failed error       // why it has ended, once events is closed
	end    context.CancelFunc

	busy atomic.Bool // it has a request
	used time.Time
	has  *known // nil: nothing
}

// over reports whether the connection has ended. A message that follows an answer is of no use.
func (s *socket) over() bool {
	for {
		select {
		case _, open := <-s.events:
			if !open {
				return true
			}
		default:
			return false
		}
	}
}

var (
	errBinary = errors.New("the endpoint sent a binary message")
	errIdle   = errors.New("the endpoint sent an error without a request")
)

// read passes on the messages of the endpoint, and answers its pings, until the connection ends.
func (s *socket) read(ctx context.Context) {
	defer close(s.events)
	defer func() { _ = s.conn.CloseNow() }()
	s.conn.SetReadLimit(longestMessage)
	for {
		kind, text, err := s.conn.Read(ctx)
		idle := !s.busy.Load()
		switch {
		case err != nil:
		case kind != websocket.MessageText:
			err = errBinary
		case idle && kindOf(text) == "error":
			err = errIdle
		}
		if err != nil {
			s.failed = err
			return
		}
		if idle {
			continue
		}
		select {
		case s.events <- text:
		case <-ctx.Done():
			s.failed = context.Cause(ctx)
			return
		}
	}
}

// next is the next message of an answer.
func (s *socket) next(ctx context.Context) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case text, open := <-s.events:
		if !open {
			return nil, s.failed
		}
		return text, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
