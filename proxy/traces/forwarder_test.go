package traces

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"codex-proxy/proxy/ondemand"
)

// forwarding is a sender whose forwarder leads to endpoint.
func forwarding(t *testing.T, endpoint string, h http.Header) *socket {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	f := NewForwarder(endpoint, h, time.Hour, slog.New(slog.DiscardHandler))
	go func() { ran <- f.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
	return newSocket(socket)
}

// fake is a collector that answers like that.
func fake(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL + "/v1/traces"
}

func TestForward(t *testing.T) {
	rejected, err := proto.Marshal(&collector.ExportTraceServiceResponse{
		PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "why"},
	})
	require.NoError(t, err)
	url := fake(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "spans", string(body))
		assert.Equal(t, "POST /v1/traces", r.Method+" "+r.URL.Path)
		assert.Equal(t, "application/x-protobuf", r.Header.Get("Content-Type"))
		assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		_, _ = w.Write(rejected)
	})
	s := forwarding(t, url, header("Authorization", "Bearer secret"))
	n, err := s.send(t.Context(), []byte("spans"))
	require.NoError(t, err)
	assert.EqualValues(t, 3, n)
}

// What goes wrong is told, without what the collector says, and is tried again
// where the specification says so.
func TestForwardRefused(t *testing.T) {
	for status, again := range map[int]bool{
		http.StatusBadRequest: false, http.StatusUnauthorized: false, http.StatusInternalServerError: false,
		http.StatusTooManyRequests: true, http.StatusServiceUnavailable: true,
	} {
		s := forwarding(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(ondemand.ReasonHeader, "planted")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "planted")
		}), nil)
		_, err := s.send(t.Context(), []byte("spans"))
		assert.ErrorContains(t, err, http.StatusText(status))
		assert.NotContains(t, err.Error(), "planted")
		assert.Equal(t, again, passing(err), status)
	}
}

// The headers are for the collector alone.
func TestForwardFollowsNobody(t *testing.T) {
	other := fake(t, func(http.ResponseWriter, *http.Request) { t.Error("it was followed") })
	redirect := fake(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other, http.StatusTemporaryRedirect)
	})
	s := forwarding(t, redirect, header("Authorization", "secret"))
	_, err := s.send(t.Context(), []byte("spans"))
	assert.ErrorContains(t, err, "307")
	assert.False(t, passing(err))
}

func TestForwardNowhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	_, err = forwarding(t, "http://"+l.Addr().String()+"/v1/traces", nil).send(t.Context(), nil)
	assert.ErrorContains(t, err, "connection refused")
	assert.True(t, passing(err))

	_, err = forwarding(t, "", nil).send(t.Context(), nil)
	assert.ErrorContains(t, err, errNoCollector.Error())
	assert.False(t, passing(err))

	_, err = newSocket(filepath.Join(t.TempDir(), "none")).send(t.Context(), nil)
	assert.ErrorContains(t, err, "no such file")
	assert.True(t, passing(err))
}

func TestForwardTooMuch(t *testing.T) {
	url := fake(t, func(http.ResponseWriter, *http.Request) { t.Error("it was forwarded") })
	_, err := forwarding(t, url, nil).send(t.Context(), bytes.Repeat([]byte("x"), maxMessage+1))
	assert.Error(t, err)
}

// What a collector may answer is nonsense, too.
func FuzzRejectedSpans(f *testing.F) {
	f.Add([]byte{10, 2, 8, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := rejectedSpans(b)
		var response collector.ExportTraceServiceResponse
		if len(b) > 0 && proto.Unmarshal(b, &response) == nil && n != 0 {
			assert.NotNil(t, response.PartialSuccess)
		}
	})
}
