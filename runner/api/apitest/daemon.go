// Package apitest plays the daemon of codex-runner for tests of its clients, over a real socket, and judges requests
// and answers by the OpenAPI document, for tests of clients and of the server.
package apitest

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"codex-proxy/runner/api/wire"
)

// Daemon keeps sessions in memory. A command is a function of the test.
type Daemon struct {
	Socket string

	t       testing.TB
	run     func(*Command)
	handler http.Handler
	running sync.WaitGroup // the functions of commands

	mu           sync.Mutex
	changed      chan struct{} // closed at the next change of what follows
	sessions     []*session    // the newest last
	repositories []*wire.Repository
	bundles      map[string][]byte
	pruned       []wire.Prune
	server       *http.Server
	conns        map[net.Conn]struct{}
}

// Start plays the daemon until the test has ended. Run runs in a goroutine for each command, and calls End or Hold
// before it returns.
func Start(t testing.TB, run func(*Command)) *Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "api") // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{
		Socket: filepath.Join(dir, "api.sock"), t: t, run: run, changed: make(chan struct{}),
		bundles: map[string][]byte{}, conns: map[net.Conn]struct{}{},
	}
	d.handler = Judge(t, d.routes())
	d.Up()
	t.Cleanup(func() {
		d.Down()
		d.change(func() {
			for _, s := range d.sessions {
				for _, c := range s.commands {
					c.cancel()
				}
			}
		})
		d.running.Wait()
		_ = os.RemoveAll(dir)
	})
	return d
}

// Up begins to listen, after Down.
func (d *Daemon) Up() {
	d.t.Helper()
	listener, err := net.Listen("unix", d.Socket)
	if err != nil {
		d.t.Fatal(err)
	}
	server := &http.Server{Handler: d.handler, ConnState: d.track, ReadHeaderTimeout: time.Minute}
	d.mu.Lock()
	d.server = server
	d.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // until Down
}

// track keeps the connections of Cut: those that a WebSocket or a shell took, too.
func (d *Daemon) track(conn net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state {
	case http.StateNew:
		d.conns[conn] = struct{}{}
	case http.StateClosed:
		delete(d.conns, conn)
	}
}

// Down stops listening and closes all connections. Commands go on.
func (d *Daemon) Down() {
	d.mu.Lock()
	server := d.server
	d.mu.Unlock()
	_ = server.Close()
	d.Cut()
}

// Cut closes all connections.
func (d *Daemon) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		_ = conn.Close()
	}
	clear(d.conns)
}

// change changes the state, and wakes those who wait for a change.
func (d *Daemon) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Await waits until done, which looks at the state of the given session, returns true.
func (d *Daemon) Await(id string, done func(wire.Session) bool) {
	d.t.Helper()
	for {
		d.mu.Lock()
		s, changed := d.find(id), d.changed
		ok := s != nil && done(s.whole())
		d.mu.Unlock()
		if ok {
			return
		}
		<-changed
	}
}

// reply answers with a JSON body.
func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func refuse(w http.ResponseWriter, code wire.Code, message, remedy string) {
	reply(w, code.Status(), wire.Failure{Error: &wire.Error{Code: code, Message: message, Remedy: remedy}})
}
