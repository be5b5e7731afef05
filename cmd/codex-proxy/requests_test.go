package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	received(t, read)
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
	received(t, read)
	assert.Empty(t, r.of("x"))
}
