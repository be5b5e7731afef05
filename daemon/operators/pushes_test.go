package operators

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
)

func TestCountPushes(t *testing.T) {
	registry := prometheus.NewRegistry()
	handler := countPushes(registry)
	report := func(body string) int {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest(http.MethodPost, "/v1/pushes", strings.NewReader(body)))
		return w.Code
	}
	for _, body := range []string{`{"outcome":"sent"}`, `{"outcome":"sent"}`, `{"outcome":"failed"}`} {
		assert.Equal(t, http.StatusOK, report(body))
	}
	for _, body := range []string{`{"outcome":"other"}`, `{`, `{"outcome":"` + strings.Repeat("x", maxPushCount) + `"}`} {
		assert.Equal(t, http.StatusBadRequest, report(body))
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP codex_pushes_total Notifications sent to browsers for remotes, by outcome: sent, gone (the browser takes no more), or failed.
# TYPE codex_pushes_total counter
codex_pushes_total{outcome="failed"} 1
codex_pushes_total{outcome="gone"} 0
codex_pushes_total{outcome="sent"} 2
`)))
}

// The remote of a process is what systemd says.
func TestRemoteOf(t *testing.T) {
	handler := remoteOf(func(_ context.Context, pid uint32) (units.MainProcess, error) {
		switch pid {
		case 1:
			return units.MainProcess{Unit: "codex-remote@build.service"}, nil
		case 2:
			return units.MainProcess{Unit: "codex-user@build.service"}, nil
		case 3:
			return units.MainProcess{Unit: "codex-remote@build.service"}, units.ErrNotMain
		}
		return units.MainProcess{}, errors.New("systemd does not answer")
	})
	for body, want := range map[string]string{
		`{"pid":1}`: `200 {"remote":"build"}`, `{"pid":2}`: "403 the process is not", `{"pid":3}`: "403 the process is not",
		`{"pid":4}`: "503 systemd does not answer", `{"pid":0}`: "400 the request", `{"pid":-1}`: "400 the request", "1": "400 the request",
	} {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest(http.MethodPost, "/v1/remote-of", strings.NewReader(body)))
		status, text, _ := strings.Cut(want, " ")
		assert.Equal(t, status, strconv.Itoa(w.Code), body)
		assert.Contains(t, w.Body.String(), text, body)
	}
}
