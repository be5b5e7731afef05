package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// Clients that keep more connections open than the service may have files exclude no
// others: probes, requests, operators' commands and a reload succeed.
func TestManyIdleConnections(t *testing.T) {
	bed.EitherSuite(t, testManyIdleConnections)
}

func testManyIdleConnections(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.DropIn(bed.ProxyUnit, "files", "[Service]\nLimitNOFILE=128\n")
	b.Start()
	for n := range 300 {
		idleConnection(b, n)
	}
	bed.AssertServes(b, "crowded")
	b.MustRun(t, "codex-proxy", "status")
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	for n := range 300 {
		idleConnection(b, n)
	}
	bed.AssertServes(b, "crowded after a reload")
	untilReportChanges(b) // over D-Bus
	bed.AssertSmooth(b)
	assert.Contains(t, b.UnitJournal(bed.ProxyUnit), "too many connections: those without a request are closed limit=64")
}

// idleConnection has had an answer, and stays open until the service closes it.
func idleConnection(b *bed.Bed, n int) {
	b.T.Helper()
	conn, err := b.DialContext(b.T.Context(), "tcp", "127.0.0.1:8787")
	require.NoError(b.T, err)
	b.T.Cleanup(func() { _ = conn.Close() })
	require.NoError(b.T, conn.SetDeadline(time.Now().Add(bed.Bound)))
	_, err = fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(b.T, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(b.T, err, "connection %d", n)
	assert.Equal(b.T, http.StatusOK, res.StatusCode)
}
