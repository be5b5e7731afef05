package appserver

import (
	"log/slog"
	"time"

	"codex-proxy/codex/delivery"
)

// Options configures a connection. The zero value works.
type Options struct {
	// Logger receives the faults of the peer; nil discards them.
	Logger *slog.Logger
	// ClientName and ClientVersion identify this client to codex, which sends the name
	// upstream as the originator. Empty means "codex-proxy" and "0".
	ClientName, ClientVersion string
	// OnNotification receives the notifications that belong to no thread, such
	// as account/rateLimits/updated. It runs on the reading goroutine, so it
	// must not block and must not call back into the Conn. May be nil.
	OnNotification func(Notification)
	// WriteTimeout bounds the time in which the peer reads nothing of a message,
	// so that a stopped one cannot block the connection. Zero means 10 s.
	WriteTimeout time.Duration
	// Prestart is how many threads may be started before their turns, for turns that begin like earlier ones, as many
	// as have started at once. Each costs codex 0.169 about 2 MiB. Zero means none.
	Prestart int
	// SlowStart is how long the start of a thread waits for others at most: codex starts as many at a time as there are
	// processors, and may wait itself, for a server of tools. Zero means 250 ms.
	SlowStart time.Duration
	// ThreadConfig has keys of config.toml for all threads of the connection.
	ThreadConfig map[string]string
	// CallTimeout is how long a turn is silent after a call of a client's tool before the call is answered with a
	// failure: only then does codex report whether the response has failed. To a codex that does not report the end
	// of a response (versions.MarksResponses) this silence is the end. Zero means 2 s.
	CallTimeout time.Duration
	// QueueEvents and QueueBytes bound the notifications of one turn that wait for its consumer. Zero means 16384
	// events and 8 MiB.
	QueueEvents, QueueBytes int
	// Backlog bounds the waiting bytes of all turns, on all connections that share it. Nil sets no bound.
	Backlog *delivery.Backlog
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
	if o.CallTimeout <= 0 {
		o.CallTimeout = 2 * time.Second
	}
	if o.SlowStart <= 0 {
		o.SlowStart = 250 * time.Millisecond
	}
	if o.QueueEvents <= 0 {
		o.QueueEvents = 16384
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 8 << 20
	}
	return o
}
