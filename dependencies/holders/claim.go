// Package holders finds the processes that hold the resources of a server: TCP ports, a lock file, the files of
// its data. It looks at the open descriptors of every process in /proc, so it needs root.
package holders

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	// bound is the longest that Holders takes.
	bound = 5 * time.Second
	// passing is the time for a process that is about to end: the kernel closes its files before it is reaped,
	// but its entry in /proc has no descriptors any more.
	passing = 500 * time.Millisecond
	again   = 20 * time.Millisecond
)

// Claim names the resources that a server needs for itself.
type Claim struct {
	Ports []int    // TCP ports, on any address
	Lock  string   // the absolute path of a file for flock(2); empty: none
	Data  []string // the absolute paths of directories; a process that writes to a file there holds the file
	// Root is where the paths begin; empty: at this process's root directory.
	Root string
	// Unit is the server's own unit. Its processes hold neither ports nor data against the claim.
	Unit string
}

// Holders returns the processes that hold a part of the claim, by their numbers; none if the claim is free. It
// returns within five seconds. The claim's paths may lead through directories of users that are not trusted: nothing
// is made, written or followed there. The error joins the unreadable places; the holders are valid with it.
func (c Claim) Holders(ctx context.Context) ([]Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	type result struct {
		found []Holder
		err   error
	}
	done := make(chan result, 1) // a read of /proc has no bound of its own, see proc_pid_cmdline(5)
	go func() {
		found, err := c.settled(ctx)
		done <- result{found, err}
	}()
	select {
	case r := <-done:
		return r.found, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("cannot look for other processes: %w", context.Cause(ctx))
	}
}

// settled looks again while something is held by no process that can be seen.
func (c Claim) settled(ctx context.Context) ([]Holder, error) {
	for began := time.Now(); ; {
		found, err := c.look(ctx)
		unseen := slices.ContainsFunc(found, func(h Holder) bool { return h.PID == 0 })
		if !unseen || time.Since(began) > passing || ctx.Err() != nil {
			return found, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// look looks once.
func (c Claim) look(ctx context.Context) ([]Holder, error) {
	s, err := c.search(ctx)
	if s.empty() {
		return nil, err
	}
	s.descriptors(ctx)
	return s.holders(c.Unit), err
}

// portName is the name of a port in the text of a Holder.
func portName(port int) string { return "port " + strconv.Itoa(port) }
