package responses

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coder/websocket"

	"codex-proxy/proxy"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/inflight"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/turn"
)

// smallMessage is the part of a message, in bytes, that is read before memory is acquired, so that a cancel is read if
// memory is full. It is small enough to wait uncharged, maxWaiting times on every connection.
const smallMessage = 16 << 10

// memoryWait bounds a wait of the reader for memory, in which it answers no ping. Clients close the connection after
// 20 seconds without an answer (websockets 15 for Python, which openai-python uses).
const memoryWait = 10 * time.Second

// read reads messages until the connection ends. It waits for nothing else but memory, and not after the end of the
// handler: only read notices that the client closes the connection.
func (s *socket) read(handler context.Context) error {
	for {
		err := s.readMessage(handler)
		var known *openai.Error
		switch {
		case errors.As(err, &known):
			s.sendError(known)
		case err != nil:
			return err
		}
	}
}

// readMessage waits for a message as long as the connection is open. A message that has
// begun must arrive within BodyTimeout, and a large one needs memory. A small request
// waits for memory in its turn, where that delays no other message.
func (s *socket) readMessage(handler context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.r.Context())) // CloseNow ends it
	defer cancel()
	kind, body, err := s.conn.Reader(ctx)
	switch {
	case err != nil:
		return turn.ErrClientGone
	case kind != websocket.MessageText:
		_ = s.conn.Close(websocket.StatusUnsupportedData, "send text messages")
		return turn.ErrClientGone
	}
	s.edges.Add(1)
	defer s.edges.Add(1)
	late := time.AfterFunc(proxy.BodyTimeout, cancel)
	defer late.Stop()
	m := message{held: s.Server.Memory.Hold(s.x.Key.Name)}
	if m.body, err = io.ReadAll(io.LimitReader(body, smallMessage+1)); err != nil {
		return turn.ErrClientGone
	}
	if len(m.body) <= smallMessage {
		m.held.TryAcquire(limits.Expected(int64(len(m.body))))
	} else if err := s.readLarge(handler, &m, body, late); err != nil {
		return err
	}
	queued, err := s.receive(m)
	if !queued {
		m.held.Release()
	}
	return err
}

// readLarge reads the rest of a message, and acquires memory for it as it arrives. A message without memory is read
// nevertheless, as others follow it.
func (s *socket) readLarge(handler context.Context, m *message, rest io.Reader, late *time.Timer) (err error) {
	m.held.WaitAtMost(memoryWait)
	defer m.held.WaitAtMost(0)
	all := io.MultiReader(bytes.NewReader(m.body), rest)
	m.body, err = limits.ReadAll(all, s.Admission.BodyLimit, func(bytes int64) error {
		late.Stop() // the client is not to blame for the wait
		defer late.Reset(proxy.BodyTimeout)
		return m.held.Reach(handler, bytes)
	})
	if err == nil {
		late.Stop()
		return m.weigh(handler)
	}
	m.held.Release()
	var refused *openai.Error
	if _, lost := io.Copy(io.Discard, rest); lost != nil || !errors.As(err, &refused) {
		return turn.ErrClientGone
	}
	return err
}

// weigh acquires the memory that it takes to decode a large message.
func (m *message) weigh(ctx context.Context) error {
	bytes, _, err := limits.Weigh(m.body)
	if err == nil {
		err = m.held.Reach(ctx, bytes)
	}
	if err != nil {
		m.held.Release()
	}
	return err
}

// receive handles a message that must not wait, and queues a request.
func (s *socket) receive(m message) (queued bool, err error) {
	head, err := wire.DecodeMessage(m.body)
	if err != nil {
		return false, err
	}
	switch head.Type {
	case "response.create":
		return s.queue(m)
	case "response.cancel":
		if running := s.running.Find(head.ResponseID, s.x.Key.Name); running != nil {
			running.Cancel(inflight.ErrCancelled)
			return false, nil
		}
		return false, openai.Invalid("response_not_found", "response_id", "there is no such response in flight")
	case "response.processed": // codex sends it when it has processed a response
		return false, nil
	default:
		return false, openai.Invalid("invalid_value", "type",
			fmt.Sprintf("there is no message of type %q; send response.create", openai.Bounded(head.Type)))
	}
}

// queue queues a request behind those before it, within bounds on their number and bytes.
func (s *socket) queue(m message) (queued bool, err error) {
	size, limit := int64(len(m.body)), s.Admission.BodyLimit
	if s.bytes.Add(size) > limit {
		s.bytes.Add(-size)
		return false, openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded", fmt.Sprintf(
			"the requests that wait on this connection would be larger than %d bytes (body_limit); use another one",
			limit), time.Second)
	}
	select {
	case s.waiting <- m:
		return true, nil
	default:
		s.bytes.Add(-size)
		return false, openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("%d requests wait on this connection already; use another one", maxWaiting), time.Second)
	}
}
