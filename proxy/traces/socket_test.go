package traces

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"codex-proxy/internal/ondemand"
)

// sender is the other end of a socket, with this answer.
func sender(t *testing.T, answer http.HandlerFunc) *socket {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := http.Server{Handler: answer}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return newSocket(path)
}

func TestSend(t *testing.T) {
	rejection, err := proto.Marshal(&collector.ExportTraceServiceResponse{
		PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "why"},
	})
	require.NoError(t, err)
	s := sender(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "spans", string(body))
		assert.Equal(t, "POST /v1/traces", r.Method+" "+r.URL.Path)
		assert.Equal(t, "application/x-protobuf", r.Header.Get("Content-Type"))
		_, _ = w.Write(rejection)
	})
	n, err := s.send(t.Context(), []byte("spans"))
	require.NoError(t, err)
	assert.EqualValues(t, 3, n)
}

// A failure is repeated where the OTLP specification has it.
func TestSendRefused(t *testing.T) {
	for status, again := range map[int]bool{
		http.StatusBadRequest: false, http.StatusUnauthorized: false, http.StatusInternalServerError: false,
		http.StatusTemporaryRedirect: false, http.StatusGone: false,
		http.StatusTooManyRequests: true, http.StatusBadGateway: true, http.StatusServiceUnavailable: true,
	} {
		for _, reason := range []string{"", "the reason"} {
			_, err := sender(t, func(w http.ResponseWriter, _ *http.Request) {
				if reason != "" {
					w.Header().Set(ondemand.ReasonHeader, reason)
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "planted")
			}).send(t.Context(), []byte("spans"))
			assert.NotContains(t, err.Error(), "planted")
			assert.Equal(t, again, passing(err), status)
			if reason == "" {
				assert.ErrorContains(t, err, http.StatusText(status))
			} else {
				assert.EqualError(t, err, reason)
			}
		}
	}
}

func TestSendNowhere(t *testing.T) {
	_, err := newSocket(filepath.Join(t.TempDir(), "none")).send(t.Context(), nil)
	assert.ErrorContains(t, err, "no such file")
	assert.True(t, passing(err))
}

// An answer that is no protobuf rejects no spans.
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
