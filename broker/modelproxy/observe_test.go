package modelproxy

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestState(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			assert.Empty(t, r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer provider.Close()
	l, err := ForWorker(Endpoint{BaseURL: provider.URL + "/v1?q=1", Key: "sk-key"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)
	assert.Equal(t, "POST /v1/responses Bearer sk-key", textOf(t, ask(t, url+"/responses", "", "x")))
	assert.Equal(t, http.StatusNotFound, ask(t, url+"/elsewhere", "", "x").StatusCode)
	<-l.Changed()
	s := l.State()
	assert.Equal(t, map[string]uint64{"other": 1}, s.Requests)
	assert.Equal(t, 1, s.Line.Connections)

	// A probe takes no key along, and is no request of codex.
	probe := func() string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, url+ProbePath, http.NoBody)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, http.StatusOK, res.StatusCode)
		return res.Header.Get(ProbeHeader)
	}
	assert.Empty(t, probe())
	provider.Close()
	assert.Equal(t, "refused", probe())
	assert.Equal(t, map[string]uint64{"other": 1}, l.State().Requests)
	assert.Equal(t, "refused", l.State().Line.Failure.Reason)
}
