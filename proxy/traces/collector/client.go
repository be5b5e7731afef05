package collector

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"codex-proxy/proxy/traces"
)

const (
	maxAnswer = 64 << 10 // bytes
	// maxBackoff bounds gRPC's pause between two connections: the daemon repeats a message for 15 s.
	maxBackoff = 5 * time.Second
)

// newClient returns a started client of the protocol that the environment names. It sends each message
// once: the daemon repeats a message that failed.
func newClient() (otlptrace.Client, error) {
	if endpoint, _ := variable("ENDPOINT"); endpoint == "" {
		return nil, errNoCollector
	}
	if err := checkEnvironment(); err != nil {
		return nil, err
	}
	config, err := tlsConfig()
	if err != nil {
		return nil, err
	}
	client := newHTTPClient(config)
	if protocol, _ := variable("PROTOCOL"); protocol == "grpc" {
		client = newGRPCClient()
	}
	return client, client.Start(context.Background())
}

func newGRPCClient() otlptrace.Client {
	return otlptracegrpc.NewClient(
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}),
		otlptracegrpc.WithDialOption(
			grpc.WithUnaryInterceptor(record),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
			grpc.WithDisableServiceConfig(), // no lookup of TXT records
			grpc.WithNoProxy(),              // IPAddressAllow= has the collector alone
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 2, MaxDelay: maxBackoff},
				MinConnectTimeout: traces.CollectorTime,
			}),
		),
	)
}

// newHTTPClient sets the transport, with which the SDK ignores the variables of certificates.
func newHTTPClient(config *tls.Config) otlptrace.Client {
	return otlptracehttp.NewClient(
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
		otlptracehttp.WithHTTPClient(&http.Client{
			// The headers are for the endpoint, not for the target of a redirect.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: recorder{&http.Transport{
				ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSClientConfig: config,
				TLSHandshakeTimeout: traces.CollectorTime, MaxResponseHeaderBytes: maxAnswer,
			}},
		}),
	)
}
