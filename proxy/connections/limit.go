package connections

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
	// crowdedPause is the least time between two calls of crowded.
	crowdedPause = time.Minute
	// reserve is how many file descriptors the process needs at least in addition to the connections of clients: for
	// its files, their watches, the workers, D-Bus and a reload.
	reserve = 64
)

// limit is maxConnections, or three quarters of the file descriptors that this process
// may have; the reserve stays in any case, or half of the limit if that is less.
func limit() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return maxConnections
	}
	least := min(reserve, files.Cur/2)
	return int(min(maxConnections, files.Cur-max(files.Cur/4, least), math.MaxInt32))
}

// makeRoom closes the connection that has been without a request for the longest time,
// if there are more than the limit; if all have requests, it closes the newcomer. It is
// called under the lock.
func (c *Connections) makeRoom(newcomer net.Conn) {
	if len(c.conns)+c.sockets <= c.limit {
		return
	}
	victim, since := newcomer, time.Now()
	for conn, state := range c.conns {
		if state.state != http.StateActive && state.since.Before(since) {
			victim, since = conn, state.since
		}
	}
	delete(c.conns, victim)
	_ = victim.Close()
	if now := time.Now(); now.Sub(c.crowdedAt) >= crowdedPause {
		c.crowdedAt = now
		c.crowded(c.limit)
	}
}
