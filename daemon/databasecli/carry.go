package databasecli

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// connectBound is for a connection to the server: the daemon waits for no longer.
	connectBound = 2 * time.Second
	// relayIdle is how long the relay waits for another connection.
	relayIdle = 500 * time.Millisecond
	// maxCarried is how many connections there are at once; the daemon has one.
	maxCarried = 16
)

// Relay carries connections to the server. It ends when it has none, or when one cannot be made: the unit resolves the
// name of the server anew at the next start.
type Relay struct {
	Servers []string      // ADDRESS:PORT, the best one first
	Least   time.Duration // how long it waits for connections in any case: the daemon does not wait for a slow start

	started time.Time

	mu      sync.Mutex
	carried int
}

// Run accepts connections until there is none for a moment, or the server does not answer. The program ends then, and
// with it the connections that are left.
func (r *Relay) Run(l *net.UnixListener) error {
	r.started = time.Now()
	for {
		client, err := l.Accept()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		case !r.begin(l):
			client.Close()
		default:
			go r.carry(l, client)
		}
	}
}

func (r *Relay) begin(l *net.UnixListener) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.carried == maxCarried {
		return false
	}
	r.carried++
	return l.SetDeadline(time.Time{}) == nil
}

// carry carries one connection.
func (r *Relay) carry(l *net.UnixListener, client net.Conn) {
	defer client.Close()
	server := r.connect()
	if server != nil {
		pipe(client, server)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carried--
	switch { // an error would make Run wait for the next connection
	case server == nil:
		_ = l.SetDeadline(time.Now())
	case r.carried == 0:
		_ = l.SetDeadline(time.Now().Add(max(relayIdle, r.Least-time.Since(r.started))))
	}
}

// connect connects to the first server that answers; nil: none does.
func (r *Relay) connect() net.Conn {
	for _, server := range r.Servers {
		if conn, err := net.DialTimeout("tcp", server, connectBound/time.Duration(len(r.Servers))); err == nil {
			return conn
		}
	}
	return nil
}

// pipe copies both ways until one side ends.
func pipe(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(a, b) // an end is an end
		a.Close()
		b.Close()
		close(done)
	}()
	_, _ = io.Copy(b, a)
	a.Close()
	b.Close()
	<-done
}
