// Package links has the connections of API keys to remotes: WebSockets that go through the daemon as bytes, from a
// client to the proxy of a remote and back. It counts them, notices clients that are gone, closes the links of a key
// that may not attach any more, and passes them on to the process that follows this one.
package links

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
)

// Bounds on the links. A remote takes 64 connections: people on its machine always find room.
const (
	maxLinks    = 256
	maxOfKey    = 32
	maxOfRemote = 32
)

// Settings of Links. All are required but Dead.
type Settings struct {
	Keys *auth.Keys
	// Socket is the path of the socket of a remote, and State the state of its unit.
	Socket func(remote string) string
	State  func(ctx context.Context, remote string) State
	// Keepalive is the silence of a remote after which its client gets a ping, and Dead the time after which a client
	// that answers none is gone; 0: two minutes.
	Keepalive, Dead time.Duration
	Registry        prometheus.Registerer
	Logger          *slog.Logger
}

// State is the state of a remote.
type State struct {
	Name   string // of the state, such as active, or the constant Unknown
	Status string // in words; may be empty
	// Down: systemd has given up, or has restarted the remote several times in a row.
	Down bool
}

// Unknown is the state of a remote that has no file.
const Unknown = "unknown"

// Links are the links of this process. Its methods are safe for concurrent use.
type Links struct {
	Settings

	open  prometheus.Gauge
	ended *prometheus.CounterVec

	mu       sync.Mutex
	all      map[*link]struct{}
	pending  int // upgrades under way
	ofKey    map[string]int
	ofRemote map[string]int
	pass     Pass          // to the successor; nil without one
	closed   string        // why all links are closed; empty: they are not
	changed  chan struct{} // closed and replaced after the end of a link
}

// The ends of a link, for the metric.
const (
	endClient = "client"
	endRemote = "remote"
	endLost   = "lost"
	endKey    = "key"
	endStop   = "stop"
)

// New returns no links, and registers their metrics.
func New(s Settings) *Links {
	f := promauto.With(s.Registry)
	s.Dead = cmp.Or(s.Dead, 2*time.Minute)
	return &Links{
		Settings: s,
		open: f.NewGauge(prometheus.GaugeOpts{
			Name: "codex_remote_links", Help: "Connections of API keys to remotes, in this process.",
		}),
		ended: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_remote_links_ended_total",
			Help: "Connections of API keys to remotes that have ended: by the client, by the remote, because the client " +
				"was lost, because its key may not attach any more, or by a stop of the service.",
		}, []string{"end"}), endClient, endRemote, endLost, endKey, endStop),
		all: map[*link]struct{}{}, ofKey: map[string]int{}, ofRemote: map[string]int{}, changed: make(chan struct{}),
	}
}

// reserve makes room for one more link, until the link has ended or the caller calls release.
func (l *Links) reserve(key, remote string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != "":
		return openai.Unavailable("draining", "the service is stopping; connect again in a moment", time.Second)
	case l.ofKey[key] >= maxOfKey:
		return openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("this API key has %d connections to remotes already, as many as it may; close one of them",
				maxOfKey),
			time.Second)
	case l.ofRemote[remote] >= maxOfRemote:
		return openai.Unavailable("overloaded", fmt.Sprintf(
			"the remote %s has %d connections over the network already, as many as it may; close one of them", remote,
			maxOfRemote), time.Second)
	case len(l.all)+l.pending >= maxLinks:
		return openai.Unavailable("overloaded", fmt.Sprintf("there are %d connections to remotes already", maxLinks),
			time.Second)
	}
	l.pending++
	l.ofKey[key]++
	l.ofRemote[remote]++
	return nil
}

// release gives up the reservation of reserve.
func (l *Links) release(key, remote string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending--
	l.forget(key, remote)
}

func (l *Links) forget(key, remote string) {
	if l.ofKey[key]--; l.ofKey[key] == 0 {
		delete(l.ofKey, key)
	}
	if l.ofRemote[remote]--; l.ofRemote[remote] == 0 {
		delete(l.ofRemote, remote)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// begin starts a link with reserved room.
func (l *Links) begin(k *link) {
	l.mu.Lock()
	l.pending--
	l.all[k] = struct{}{}
	closed, pass := l.closed, l.pass
	l.mu.Unlock()
	l.open.Inc()
	switch { // before the link runs, so that it stops at once
	case closed != "":
		k.close(endStop, codeRestart, closed)
	case pass != nil:
		k.order(passing)
	default:
		l.revise(k)
	}
	go l.run(k)
}

// run returns at the end of the link, or when a successor has it.
func (l *Links) run(k *link) {
	k.relay()
	if k.passes() {
		l.mu.Lock()
		pass := l.pass
		l.mu.Unlock()
		if err := k.handOff(pass); err == nil {
			l.drop(k)
			return
		}
		k.note(endStop, "the service restarts, and its new process did not take the connection")
	}
	k.finish()
	defer l.drop(k)
	l.ended.WithLabelValues(k.end).Inc()
	l.Logger.Info("a connection of an API key to a remote has ended", "remote", k.Remote, "key", k.Key, "role",
		k.role().String(),
		"sent_bytes", k.Sent.Load(), "received_bytes", k.Received.Load(),
		"duration_ms", time.Since(k.Since).Milliseconds(), "reason", k.reason)
}

// drop takes a link that has ended, or that a successor has, from the table.
func (l *Links) drop(k *link) {
	l.open.Dec()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, k)
	l.forget(k.Key, k.Remote)
}

func (l *Links) list() []*link {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*link
	for k := range l.all {
		all = append(all, k)
	}
	return all
}

// Revise closes the links that their keys do not allow any more, and all when the keys are outdated.
func (l *Links) Revise() {
	for _, k := range l.list() {
		l.revise(k)
	}
}

func (l *Links) revise(k *link) {
	key, there := l.Keys.ByID(k.KeyID)
	viewer, may := key.Limits.Remote(k.Remote)
	switch {
	case l.Keys.Outdated():
		k.close(endKey, codeRestart, "the keys of the database are too old on this host; connect again later")
	case !there:
		k.close(endKey, codePolicy, "the API key was revoked")
	case !may:
		k.close(endKey, codePolicy, "the API key may not attach to this remote any more")
	case viewer != k.Viewer:
		k.close(endKey, codeRestart, "the API key has another role now")
	}
}

// Leave passes all links to a successor, and those that open later, and returns when it has them or when ctx ends.
func (l *Links) Leave(ctx context.Context, pass Pass) error {
	l.mu.Lock()
	l.pass = pass
	l.mu.Unlock()
	for _, k := range l.list() {
		k.order(passing)
	}
	return l.await(ctx)
}

// Close closes all links with the reason, and takes no more. It waits for their ends until ctx ends.
func (l *Links) Close(ctx context.Context, reason string) error {
	l.mu.Lock()
	l.closed = reason
	l.mu.Unlock()
	for _, k := range l.list() {
		k.close(endStop, codeRestart, reason)
	}
	return l.await(ctx)
}

// await waits until no link is left, and no upgrade is under way.
func (l *Links) await(ctx context.Context) error {
	for {
		l.mu.Lock()
		left, changed := len(l.all)+l.pending, l.changed
		l.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d connections to remotes are still open: %w", left, context.Cause(ctx))
		}
	}
}
