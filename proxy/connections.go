package proxy

import (
	"math"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	// maxConnections is how many connections clients have open at the same time. That
	// many without a request take 100 MB.
	maxConnections = 8192
	// crowdedPause is the least time between two lines in the log about too many.
	crowdedPause = time.Minute
)

// connectionLimit is maxConnections, or three quarters of the file descriptors that
// this process may have: the others are for workers, D-Bus and operators.
func connectionLimit() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return maxConnections
	}
	return int(min(maxConnections, files.Cur/4*3, math.MaxInt32))
}

// makeRoom closes the connection that has been without a request for the longest time,
// if there are more than there may be; without one, the newcomer. It is called under
// the lock.
func (e *exits) makeRoom(newcomer net.Conn) {
	if len(e.conns)+e.sockets <= e.most {
		return
	}
	victim, since := newcomer, time.Now()
	for conn, c := range e.conns {
		if c.state != http.StateActive && c.since.Before(since) {
			victim, since = conn, c.since
		}
	}
	delete(e.conns, victim)
	_ = victim.Close()
	if now := time.Now(); now.Sub(e.crowdedAt) >= crowdedPause {
		e.crowdedAt = now
		e.crowded(e.most)
	}
}
