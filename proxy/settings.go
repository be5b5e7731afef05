package proxy

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/traces"
	"codex-proxy/proxy/usage"
	"codex-proxy/proxy/workers"
)

// Settings is what a Server needs. All durations must be positive.
type Settings struct {
	Pool *workers.Pool
	// Report is the current health; probes, Retry-After and errors read it.
	Report func() probes.Report
	// Keys are the API keys; if there are none, none is asked for.
	Keys *auth.Keys
	// Images fetches images that requests name by URL; nil refuses those.
	Images Images
	// Usage counts what the keys use; nil: it is not counted.
	Usage *usage.Store
	// Claim is called when a request was counted as running, as
	// workers.Settings.Claim is of a place; it may call KeysElsewhere.
	Claim func() bool
	// OnKeyUse is called when KeyUses may have become less, and must not wait. Nil:
	// nobody needs to know.
	OnKeyUse func()
	// Aliases are further names of models.
	Aliases map[string]Alias
	// CORSOrigins are the origins whose pages may use the API, or "*".
	CORSOrigins []string
	// BodyLimit bounds a request body, in bytes, and the images fetched for it.
	BodyLimit int64
	// RequestMemory bounds the bytes that requests hold at the same time: their
	// bodies, images and conversations. WebSockets remember as much. It must be
	// several times BodyLimit.
	RequestMemory int64
	// QueueTimeout is the longest that a request waits for memory.
	QueueTimeout time.Duration
	// IdleTimeout is the longest silence of a worker during a turn.
	IdleTimeout time.Duration
	// RequestTimeout bounds a request from the arrival of its body to the end
	// of its answer; 0 means that it may take as long as it likes.
	RequestTimeout time.Duration
	// Keepalive is the silence on a stream after which a comment is sent.
	Keepalive time.Duration
	// ThreadCache is how many threads of answered requests are kept, for
	// requests that continue them; 0 turns that off.
	ThreadCache int
	// Responses keeps responses; nil: none is kept.
	Responses *stored.Store
	// Traces records what became of requests; nil: nothing does.
	Traces   *traces.Tracer
	Registry *prometheus.Registry
	Logger   *slog.Logger
}
