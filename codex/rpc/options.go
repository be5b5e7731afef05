package rpc

import (
	"log/slog"
	"net/http"
	"time"
)

// Options configures a connection. The zero value works.
//
// The functions run on the reading goroutine, OnClose on any: they must not block.
type Options struct {
	// Logger receives the faults of the peer; nil discards them.
	Logger *slog.Logger
	// WriteTimeout bounds the time in which the peer reads nothing of a message, so that a stopped one cannot block the
	// connection. Zero means 10 s.
	WriteTimeout time.Duration
	// Header goes with the request for the WebSocket.
	Header http.Header
	// Fields names the members that Message.Fields holds.
	Fields FieldNames
	// OnRequest handles a request of the peer, which waits until Reply or Refuse. An error ends the connection. Nil
	// leaves requests unanswered.
	OnRequest func(Message) error
	// OnNotification handles a notification. Nil drops notifications.
	OnNotification func(Message)
	// OnClose is called once, when the connection has closed. May be nil.
	OnClose func()
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.OnRequest == nil {
		o.OnRequest = func(Message) error { return nil }
	}
	if o.OnNotification == nil {
		o.OnNotification = func(Message) {}
	}
	if o.OnClose == nil {
		o.OnClose = func() {}
	}
	return o
}
