package workers_test

import (
	"bufio"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers"
)

// The line of the service is the first one on a connection to the worker that goes to another process.
func TestConnect(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	assert.False(t, r.pool.SharesLogin("z"))
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	s.awaitAnnotations(t)
	assert.True(t, r.pool.SharesLogin("a"))

	file, err := r.pool.Connect("a", "codex-proxy login\n")
	require.NoError(t, err)
	conn, err := net.FileConn(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	defer conn.Close()
	far := <-s.aside
	line, err := bufio.NewReader(far).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "codex-proxy login\n", line)
	_, err = far.Write([]byte("answer\n"))
	require.NoError(t, err)
	line, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "answer\n", line)
	require.NoError(t, far.Close())

	_, err = r.pool.Connect("z", "x\n")
	require.ErrorIs(t, err, workers.ErrUnknown)
	require.NoError(t, s.Close())
	_, err = r.pool.Connect("a", "x\n")
	require.ErrorContains(t, err, "cannot reach worker a")
}

// A remote reports what codex reported to it; garbage changes nothing.
func TestReported(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"})
	r.pool.Reported("a", json.RawMessage(`{"primary":{"usedPercent":42,"windowDurationMins":300}}`))
	for _, text := range []string{`{`, `[]`, `7`, ``} {
		r.pool.Reported("a", json.RawMessage(text))
	}
	r.pool.Reported("z", json.RawMessage(`{}`))
	v, ok := r.pool.AccountStore().View("a", time.Now())
	require.True(t, ok)
	require.Len(t, v.Quota.Windows, 1)
	assert.InDelta(t, 0.42, v.Quota.Windows[0].UsedRatio, 1e-9)
}
