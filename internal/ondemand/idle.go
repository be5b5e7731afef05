package ondemand

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Idle ends when no connection has been open for a time. Its methods are safe for concurrent use.
type Idle struct {
	unused time.Duration
	timer  *time.Timer // runs while there is no connection

	mu   sync.Mutex
	open int // connections
}

// NewIdle begins the time.
func NewIdle(unused time.Duration) *Idle { return &Idle{unused: unused, timer: time.NewTimer(unused)} }

// Over receives once the time is over.
func (i *Idle) Over() <-chan time.Time { return i.timer.C }

// Stop has Over receive nothing more.
func (i *Idle) Stop() { i.timer.Stop() }

// ConnState is the one of an http.Server. It starts the time with the end of the last connection.
func (i *Idle) ConnState(_ net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch state {
	case http.StateNew:
		i.open++
		i.timer.Stop()
	case http.StateClosed:
		if i.open--; i.open == 0 {
			i.timer.Reset(i.unused)
		}
	}
}
