package upstream

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLine(t *testing.T) {
	e, transport := newEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	for range 2 {
		res, err := post(t, transport, e.URL, "hello")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	line := transport.Line()
	assert.Equal(t, 1, line.Connections)
	assert.Equal(t, uint64(1), line.Connect.Count)
	assert.Equal(t, uint64(1), line.TLS.Count)
	assert.Equal(t, uint64(2), line.FirstByte.Count)
	assert.NotZero(t, line.Sent)
	assert.NotZero(t, line.Received)
	assert.Nil(t, line.Failure)

	_, err := post(t, transport, "https://127.0.0.1:1", "hello")
	require.Error(t, err)
	line = transport.Line()
	assert.Equal(t, map[string]uint64{"refused": 1}, line.Failures)
	assert.Equal(t, "refused", line.Failure.Reason)
	assert.False(t, line.Failure.Over)

	res, err := post(t, transport, e.URL, "")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.True(t, transport.Line().Failure.Over)
}
