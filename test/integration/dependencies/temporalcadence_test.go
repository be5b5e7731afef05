package dependencies

import (
	"context"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// The probe asks once each interval while it passes, and not twice at a time.
func TestTemporalCadence(t *testing.T) {
	t.Parallel()
	testTemporalCadence(t, bed.Newest)
}

func testTemporalCadence(t *testing.T, suite string) {
	s := newTemporal(t, suite, quickProbe+"failures = 20\n")
	asked := s.countProbes("127.0.0.1:17233")
	preset, err := s.ReadFile(s.File)
	require.NoError(t, err)
	s.Write(strings.Replace(string(preset), "check = \"grpc:"+temporalAddr, "check = \"grpc:127.0.0.1:17233", 1))
	s.Start()
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	var gaps bed.Sample
	for last := (time.Time{}); len(gaps) < 10; {
		select {
		case at := <-asked:
			if !last.IsZero() && last.After(started) {
				gaps = append(gaps, at.Sub(last))
			}
			last = at
		case <-ctx.Done():
			require.NoError(t, ctx.Err(), "after %d probes", len(gaps))
		}
	}
	t.Logf("between two probes: %s; interval 500 ms", gaps)
	assert.Greater(t, gaps.Quantile(0.5), 450*time.Millisecond)
	assert.Equal(t, "active", s.Properties(s.Unit, "ActiveState")["ActiveState"])
	assert.Equal(t, "0", s.Properties(s.Unit, "NRestarts")["NRestarts"])
}

// countProbes passes on what comes to address, and sends the time of each question for the health.
func (s temporal) countProbes(address string) <-chan time.Time {
	s.T.Helper()
	asked := make(chan time.Time, 1000)
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: temporalAddr})
	proxy.Transport = &http.Transport{Protocols: &h2c, DialContext: s.DialContext}
	l, err := s.Listen("tcp", address)
	require.NoError(s.T, err)
	server := &http.Server{Protocols: &h2c, ReadHeaderTimeout: bed.Bound,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/grpc.health.v1.Health/") {
				asked <- time.Now()
			}
			proxy.ServeHTTP(w, r)
		})}
	go func() { _ = server.Serve(l) }() // until Close
	s.T.Cleanup(func() { _ = server.Close() })
	return asked
}
