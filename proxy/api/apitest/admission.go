package apitest

import (
	"bufio"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
)

// Single is a worker with one place that a stream holds until the gate opens.
func Single(t testing.TB, changes ...func(*Options)) (r *Rig, gate chan struct{}, finish func()) {
	t.Helper()
	gate = make(chan struct{})
	r = NewRig(t, &appservertest.Server{Handler: Gated(gate, "x")}, append(changes, func(o *Options) { o.Max = 1 })...)
	held := r.Chatting(t, Hello(Streaming))
	body := bufio.NewReader(held.Body)
	Frame(t, body)
	return r, gate, func() { assert.Contains(t, Text(t, Unread(held, body)), "[DONE]") }
}

// Later posts from a goroutine of its own.
func (r *Rig) Later(t testing.TB, body string, header ...string) <-chan *http.Response {
	t.Helper()
	resp := make(chan *http.Response, 1)
	depth := r.Report().Queue.Depth
	go func() { resp <- r.Chatting(t, body, header...) }()
	Await(t, Tick(t), func() bool { return r.Report().Queue.Depth > depth || len(resp) > 0 })
	return resp
}
