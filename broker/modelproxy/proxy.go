// Package modelproxy lends codex secrets that it must not have: the key of its provider, or the login of an account. It
// is a server, beside codex, that adds the key or the token to the requests of codex and sends them on. So codex, its
// tools, and attached people use them and cannot read them.
package modelproxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/conversation"
	"codex-proxy/internal/nudge"
)

// Proxy is a server for one codex.
type Proxy struct {
	// Token replaces the key in codex's requests. On a network that codex shares with the machine it keeps
	// other users from the server. A token of an account is a JWT, of which this is the last part. Empty: codex alone
	// reaches the server.
	Token string

	handler       http.Handler
	conversations *conversation.Conversations
	guard         *guard // nil: codex alone reaches the server
	flights       flights
	seen          observation
	logger        *slog.Logger
}

func newProxy(logger *slog.Logger) *Proxy {
	return &Proxy{Token: rand.Text(), guard: newGuard(), logger: logger,
		seen: observation{requests: map[string]uint64{}, tokens: map[string]brokerstate.Tokens{},
			limits: map[string]brokerstate.Limits{}, began: time.Now(), changed: nudge.New()}}
}

// Run serves on l until ctx is done.
func (l *Proxy) Run(ctx context.Context, listener net.Listener) error {
	server := l.server()
	defer l.converse(ctx)()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l.accepting(listener)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// converse keeps the WebSockets of conversations, until end is called.
func (l *Proxy) converse(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { l.conversations.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func (l *Proxy) server() *http.Server {
	const headerBound, idleBound, headerSize = 10 * time.Second, 2 * time.Minute, 64 << 10
	server := &http.Server{
		Handler: l, ReadHeaderTimeout: headerBound, IdleTimeout: idleBound, MaxHeaderBytes: headerSize,
		ErrorLog: slog.NewLogLogger(l.logger.Handler(), slog.LevelDebug), // of single connections: no events
	}
	if l.guard != nil {
		l.guard.watch(server)
	}
	return server
}

// accepting is the listener with the bound of its connections. The guard has bounds of its own.
func (l *Proxy) accepting(listener net.Listener) net.Listener {
	if l.guard != nil {
		return listener
	}
	return bounded(listener, workerLimit)
}

// ServeHTTP implements http.Handler.
func (l *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.flights.add(1)
	l.seen.changed.Touch()
	defer func() {
		l.flights.add(-1)
		l.seen.changed.Touch()
	}()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	token = token[strings.LastIndexByte(token, '.')+1:]
	if l.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(l.Token)) != 1 {
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusUnauthorized, "this server is for one codex alone")
		return
	}
	if l.guard != nil && !l.guard.admit(r) {
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusServiceUnavailable, "codex has too many connections to its model")
		return
	}
	l.handler.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": words}})
}
