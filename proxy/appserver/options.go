package appserver

import (
	"log/slog"
	"time"
)

// Options configures a connection. The zero value works.
type Options struct {
	// Logger receives what the peer does wrong; nil discards it.
	Logger *slog.Logger
	// ClientName and ClientVersion introduce us to codex, which passes the name
	// on upstream as the originator. Empty means "codex-proxy" and "0".
	ClientName, ClientVersion string
	// OnNotification receives the notifications that belong to no thread, such
	// as account/rateLimits/updated. It runs on the reading goroutine, so it
	// must not block and must not call back into the Conn. May be nil.
	OnNotification func(Notification)
	// WriteTimeout bounds the writing of one message, so that a stopped peer
	// cannot wedge us. Zero means 10 s.
	WriteTimeout time.Duration
	// Ahead is how many threads may wait that were started before anybody asked
	// for them, for turns that begin like earlier ones. Each costs codex 0.169 about
	// 2 MiB. Zero means none.
	Ahead int
	// CallPatience is how long a turn is silent after a call of a client's tool
	// before codex is told that nobody answers it: only then does codex say
	// whether the response has failed. Zero means 2 s.
	CallPatience time.Duration
	// QueueEvents and QueueBytes bound what one turn may have waiting for its
	// consumer. Zero means 16384 events and 8 MiB.
	QueueEvents, QueueBytes int
	// Backlog bounds what all turns have waiting, those of other connections that
	// share it included. Nil: nothing does.
	Backlog *Backlog
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ClientName == "" {
		o.ClientName = "codex-proxy"
	}
	if o.ClientVersion == "" {
		o.ClientVersion = "0"
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.CallPatience <= 0 {
		o.CallPatience = 2 * time.Second
	}
	if o.QueueEvents <= 0 {
		o.QueueEvents = 16384
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 8 << 20
	}
	return o
}
