package shim

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"codex-proxy/probes/check"
	"codex-proxy/workers/annotations"
)

const (
	// maxRequests is the number of threads that are remembered; the oldest go first.
	maxRequests = 1024
	// maxAnnotation holds a thread and a request id of 128 bytes, with room to spare.
	maxAnnotation = 256
)

// requests are the requests of a worker's threads, as the proxy reports them. The
// methods may be called from any goroutine.
type requests struct {
	resting chan struct{} // closed when the proxy has ended the worker, which has no turns

	mu    sync.Mutex
	renew bool // the worker starts again then
	at    map[string]string
	order []string
	fault string // the proxy's report about codex as a whole
}

func newRequests() *requests { return &requests{resting: make(chan struct{}), at: map[string]string{}} }

// read reads annotations from conn until it ends.
func (r *requests) read(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, maxAnnotation), maxAnnotation)
	for lines.Scan() {
		thread, request, ok := strings.Cut(lines.Text(), " ")
		switch {
		case ok && thread == annotations.Wedged:
			r.blame(request)
		case ok && thread == annotations.Rest:
			r.rest(false)
		case ok && thread == annotations.Renew:
			r.rest(true)
		case ok:
			r.note(thread, request)
		}
	}
}

func (r *requests) note(thread, request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.at[thread]; !known {
		if len(r.order) == maxRequests {
			delete(r.at, r.order[0])
			r.order = r.order[1:]
		}
		r.order = append(r.order, thread)
	}
	r.at[thread] = request
}

func (r *requests) blame(words string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = words
}

func (r *requests) rest(renew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rests() {
		r.renew = renew
		close(r.resting)
	}
}

// rests reports whether the proxy has ended the worker.
func (r *requests) rests() bool {
	select {
	case <-r.resting:
		return true
	default:
		return false
	}
}

// renews reports whether the worker starts again after its rest.
func (r *requests) renews() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renew
}

// alive returns probe, which fails for good once the proxy has reported codex as
// wedged.
func (r *requests) alive(probe check.Func) check.Func {
	return func(ctx context.Context) (string, error) {
		detail, err := probe(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err == nil && r.fault != "" {
			err = errors.New(r.fault)
		}
		return detail, err
	}
}

// of returns the request of a thread; empty if none is known.
func (r *requests) of(thread string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at[thread]
}
