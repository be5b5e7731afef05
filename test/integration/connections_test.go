package integration

import (
	"bufio"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Clients that keep more connections open than the service may have files exclude no
// others: probes, requests, operators' commands and a reload succeed.
func TestManyIdleConnections(t *testing.T) {
	bothSuites(t, testManyIdleConnections)
}

func testManyIdleConnections(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.dropIn(proxyUnit, "files", "[Service]\nLimitNOFILE=128\n")
	b.start()
	for n := range 300 {
		b.idleConnection(n)
	}
	b.assertServes("crowded")
	b.MustRun(t, "codex-proxy", "status")
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	for n := range 300 {
		b.idleConnection(n)
	}
	b.assertServes("crowded after a reload")
	b.untilReportChanges() // over D-Bus
	b.assertSmooth()
	assert.Contains(t, b.journal(proxyUnit), "too many connections: those without a request are closed limit=64")
}

// idleConnection has had an answer, and stays open until the service closes it.
func (b *bed) idleConnection(n int) {
	b.t.Helper()
	conn, err := b.DialContext(b.t.Context(), "tcp", "127.0.0.1:8787")
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(bound)))
	_, err = fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(b.t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(b.t, err, "connection %d", n)
	assert.Equal(b.t, http.StatusOK, res.StatusCode)
}
