package wsframe

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"codex-proxy/proxy/answer"
)

// The first byte of a frame. Source: RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opPong         = 0xa
	final          = 0x80
)

// Conn is the connection of a WebSocket. Every call of Write writes whole frames. It answers pings between two
// frames, and messages are sent in several, so that a ping is answered while a long message is on its way. The library
// would end the connection if it could not answer within five seconds.
type Conn struct {
	net.Conn
	Timeout time.Duration // bounds a call of Write

	messages sync.Mutex // one message after another
	writing  sync.Mutex // one frame after another

	mu     sync.Mutex
	due    []byte // payload of the last ping, if it is not answered
	pinged bool   // it is not
}

// Write implements net.Conn.
func (c *Conn) Write(frames []byte) (n int, err error) {
	c.writing.Lock()
	n, err = c.write(frames)
	c.writing.Unlock()
	c.answer()
	return n, err
}

// write is called under writing.
func (c *Conn) write(frames []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(frames)
}

// Message writes a text. The client must take each of its frames within the timeout.
func (c *Conn) Message(text []byte) error {
	c.messages.Lock()
	defer c.messages.Unlock()
	for op := byte(opText); ; op = opContinuation {
		part := text[:min(answer.Slice, len(text))]
		if text = text[len(part):]; len(text) == 0 {
			op |= final
		}
		if _, err := c.Write(frame(op, part)); err != nil || len(text) == 0 {
			return err
		}
	}
}

// Ping is called at a ping of the client, and does not wait. Only the last ping needs an answer. Source: RFC 6455,
// section 5.5.3.
func (c *Conn) Ping(payload []byte) {
	c.mu.Lock()
	c.due, c.pinged = bytes.Clone(payload), true
	c.mu.Unlock()
	c.answer()
}

// answer answers the last ping, unless another goroutine is writing, which will.
func (c *Conn) answer() {
	for c.waits() && c.writing.TryLock() {
		if payload, ok := c.take(); ok {
			_, _ = c.write(frame(opPong|final, payload)) // the reader notices an error
		}
		c.writing.Unlock()
	}
}

func (c *Conn) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pinged
}

func (c *Conn) take() (payload []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	payload, ok = c.due, c.pinged
	c.due, c.pinged = nil, false
	return payload, ok
}

// frame is an unmasked frame, as servers send it.
func frame(first byte, payload []byte) []byte {
	b := make([]byte, 1, len(payload)+10)
	b[0] = first
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, payload...)
}
