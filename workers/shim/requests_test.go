package shim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"codex-proxy/internal/cli"
	"codex-proxy/workers/annotations"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRequestsOfThreads(t *testing.T) {
	r := newRequests()
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
	r := newRequests()
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
	r := newRequests()
	probe := r.alive(func(context.Context) (string, error) { return "codex 1", nil })
	detail, err := probe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "codex 1", detail)
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); r.read(here) }()
	_, err = there.Write([]byte("t1 r1\n" + annotations.Wedged + " codex has answered nothing\n"))
	require.NoError(t, err)
	require.NoError(t, there.Close())
	<-done
	_, err = probe(t.Context())
	require.EqualError(t, err, "codex has answered nothing")
	assert.Equal(t, "r1", r.of("t1"))
}

// The proxy's line ends the worker; a second one changes nothing.
func TestRest(t *testing.T) {
	r := newRequests()
	ours, theirs := net.Pipe()
	read := make(chan struct{})
	go func() { defer close(read); r.read(ours) }()
	assert.False(t, r.rests())
	for range 2 {
		_, err := theirs.Write([]byte(annotations.Rest + " it is idle\n"))
		require.NoError(t, err)
	}
	require.NoError(t, theirs.Close())
	<-read
	assert.True(t, r.rests())
	<-r.resting
}

// A renewal ends the worker, too, and has it start again.
func TestRenew(t *testing.T) {
	for word, renews := range map[string]bool{annotations.Rest: false, annotations.Renew: true} {
		r := newRequests()
		ours, theirs := net.Pipe()
		read := make(chan struct{})
		go func() { defer close(read); r.read(ours) }()
		_, err := theirs.Write([]byte(word + " for another codex\n"))
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		<-read
		<-r.resting
		assert.Equal(t, renews, r.renews(), word)
		s := Shim{requests: r}
		status := map[bool]int{true: cli.OK, false: ExitResting}[renews]
		assert.Equal(t, cli.Exit(status, nil), s.end(syscall.WaitStatus(syscall.SIGHUP), slog.New(slog.DiscardHandler)))
	}
}

// Only an orderly end makes the unit a standby: after any other one systemd restarts it.
func TestOrderly(t *testing.T) {
	const exited, code = 0, 8
	assert.True(t, orderly(exited))
	assert.True(t, orderly(syscall.WaitStatus(syscall.SIGHUP)), "the signal that ends it")
	assert.False(t, orderly(1<<code))
	assert.False(t, orderly(syscall.WaitStatus(syscall.SIGKILL)))
}

// The unit takes the shim's status for a success without a restart.
func TestUnitKnowsTheStatus(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/codex-worker@.service")
	require.NoError(t, err)
	for _, key := range []string{"SuccessExitStatus", "RestartPreventExitStatus"} {
		assert.Contains(t, string(unit), fmt.Sprintf("\n%s=%d\n", key, ExitResting))
	}
}
