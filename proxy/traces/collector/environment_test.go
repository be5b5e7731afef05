package collector

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"

	"codex-proxy/proxy/traces"
)

func TestMistakesInTheEnvironment(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"PROTOCOL", "udp", `OTEL_EXPORTER_OTLP_PROTOCOL = "udp": must be one of grpc, http/protobuf, http/json`},
		{"TRACES_PROTOCOL", "udp", `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL = "udp": must be one of`},
		{"COMPRESSION", "zip", `OTEL_EXPORTER_OTLP_COMPRESSION = "zip": must be one of gzip, none`},
		{"TIMEOUT", "10s", `OTEL_EXPORTER_OTLP_TIMEOUT = "10s": must be a number of milliseconds`},
		{"TIMEOUT", "0", "must be a number of milliseconds"},
		{"HEADERS", "planted", "OTEL_EXPORTER_OTLP_HEADERS: must be NAME=VALUE,NAME=VALUE"},
		{"HEADERS", "a=b,", "must be NAME=VALUE"},
		{"HEADERS", "a b=planted", "must be NAME=VALUE"},
		{"HEADERS", "a=planted%zz", "must be NAME=VALUE"},
		{"CERTIFICATE", "/nonexistent", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /nonexistent"},
		{"CERTIFICATE", os.DevNull, "has no certificate"},
	} {
		t.Run(c.name+c.value, func(t *testing.T) {
			fake(t, func(http.ResponseWriter, *http.Request) { t.Error("it was forwarded") })
			t.Setenv("OTEL_EXPORTER_OTLP_"+c.name, c.value)
			status, reason, _ := post(t, forwarder(t), message(t))
			assert.Equal(t, http.StatusGone, status)
			assert.Contains(t, reason, c.want)
			assert.NotContains(t, reason, "planted")
		})
	}
}

// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is the whole URL.
func TestEndpointOfTraces(t *testing.T) {
	url := fake(t, func(_ http.ResponseWriter, r *http.Request) { assert.Equal(t, "/all/of/it", r.URL.Path) })
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url+"/all/of/it")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	status, reason, _ := post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusOK, status, reason)
}

func TestCompression(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Run("HTTP", func(t *testing.T) {
		fake(t, func(_ http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "gzip", r.Header.Get("Content-Encoding"))
			z, err := gzip.NewReader(r.Body)
			assert.NoError(t, err)
			body, err := io.ReadAll(z)
			assert.NoError(t, err)
			assert.Equal(t, message(t), body)
		})
		status, reason, _ := post(t, forwarder(t), message(t))
		assert.Equal(t, http.StatusOK, status, reason)
	})
	t.Run("gRPC", func(t *testing.T) {
		compressed := make(chan string, 1)
		fakeGRPC(t, func(context.Context, *otlp.ExportTraceServiceRequest) (*otlp.ExportTraceServiceResponse, error) {
			return &otlp.ExportTraceServiceResponse{}, nil
		}, grpc.StatsHandler(compression{compressed}))
		status, reason, _ := post(t, forwarder(t), message(t))
		assert.Equal(t, http.StatusOK, status, reason)
		assert.Equal(t, "gzip", <-compressed)
	})
}

// compression reports that of a call.
type compression struct{ seen chan<- string }

func (compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (compression) HandleConn(context.Context, stats.ConnStats)                       {}
func (c compression) HandleRPC(_ context.Context, s stats.RPCStats) {
	if header, ok := s.(*stats.InHeader); ok {
		c.seen <- header.Compression
	}
}

// A collector that does not answer costs the time of the variable, and no more than CollectorTime.
func TestTimeout(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")
	bound, err := timeout()
	require.NoError(t, err)
	assert.Equal(t, traces.CollectorTime, bound)

	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
	answer := make(chan struct{})
	fake(t, func(http.ResponseWriter, *http.Request) { <-answer })
	began := time.Now()
	status, reason, _ := post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusBadGateway, status)
	assert.Contains(t, reason, "deadline exceeded")
	assert.Less(t, time.Since(began), traces.CollectorTime)
	close(answer)

	hangs := make(chan struct{})
	fakeGRPC(t, func(context.Context, *otlp.ExportTraceServiceRequest) (*otlp.ExportTraceServiceResponse, error) {
		<-hangs
		return nil, nil
	})
	status, reason, _ = post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, reason, "DeadlineExceeded")
	close(hangs)
}

// The certificates of the variables are those of both protocols.
func TestCertificates(t *testing.T) {
	ca := httptest.NewUnstartedServer(nil) // its certificate is its own authority
	ca.StartTLS()
	defer ca.Close()
	pair := ca.TLS.Certificates[0]
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	block := &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(block), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", key)
	mutual := &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2"},
	}

	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = mutual.Clone()
	s.StartTLS()
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	status, reason, _ := post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusOK, status, reason)

	fakeGRPC(t, func(context.Context, *otlp.ExportTraceServiceRequest) (*otlp.ExportTraceServiceResponse, error) {
		return &otlp.ExportTraceServiceResponse{}, nil
	}, grpc.Creds(credentials.NewTLS(mutual)))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https"+os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")[len("http"):])
	status, reason, _ = post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusOK, status, reason)
}

func TestJSON(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	fake(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Contains(t, string(body), `"name":"turn"`)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"partialSuccess":{}}`)
	})
	status, reason, _ := post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusOK, status, reason)
}
