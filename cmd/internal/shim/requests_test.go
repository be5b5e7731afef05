package shim

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/workers"
)

func TestRequestsOfThreads(t *testing.T) {
	var r requests
	assert.Empty(t, r.of("a"))
	ours, theirs := net.Pipe()
	read := make(chan struct{})
	go func() { defer close(read); r.read(ours) }()
	_, err := theirs.Write([]byte("codex-proxy annotations\na req_1\nb req_2\nnonsense\na req_3\n"))
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	<-read
	assert.Equal(t, "req_3", r.of("a"), "the thread was continued")
	assert.Equal(t, "req_2", r.of("b"))
	assert.Empty(t, r.of("nonsense"))
	assert.Empty(t, r.of(""))
}

func TestRequestsOfThreadsAreBounded(t *testing.T) {
	var r requests
	for n := range maxRequests + 2 {
		r.note(fmt.Sprint(n), "r")
	}
	assert.Empty(t, r.of("1"))
	assert.Equal(t, "r", r.of("2"))
	assert.Len(t, r.at, maxRequests)

	ours, theirs := net.Pipe()
	read := make(chan struct{})
	go func() { defer close(read); r.read(ours); ours.Close() }()
	_, _ = theirs.Write([]byte("x " + strings.Repeat("y", 2*maxAnnotation)))
	<-read
	assert.Empty(t, r.of("x"))
}

// What the proxy reports of all of codex fails the probe that feeds the watchdog, for good.
func TestWedgedFailsTheProbe(t *testing.T) {
	var r requests
	probe := r.alive(func(context.Context) (string, error) { return "codex 1", nil })
	detail, err := probe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "codex 1", detail)
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); r.read(here) }()
	_, err = there.Write([]byte("t1 r1\n" + workers.Wedged + " codex has answered nothing\n"))
	require.NoError(t, err)
	require.NoError(t, there.Close())
	<-done
	_, err = probe(t.Context())
	require.EqualError(t, err, "codex has answered nothing")
	assert.Equal(t, "r1", r.of("t1"))
}
