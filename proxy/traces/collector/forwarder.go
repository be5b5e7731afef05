// Package collector sends the daemon's spans on to an OpenTelemetry collector with the exporters of the
// SDK, which read OTEL_EXPORTER_OTLP_* from the environment. It links gRPC, which costs every process of a
// program 1 MiB of memory of its own and 3 MiB of mapped file: only cmd/codex-proxy-traces imports it.
package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"codex-proxy/internal/ondemand"
	"codex-proxy/proxy/traces"
)

// maxForwards bounds the messages on their way: after a reload two daemons send, one message each.
const maxForwards = 4

var errNoCollector = errors.New("no collector is configured")

// Forwarder sends the messages of daemons on to a collector. Create it with NewForwarder.
type Forwarder struct {
	client  otlptrace.Client
	broken  error // the reason to refuse every message, if there is one
	timeout time.Duration
	slots   chan struct{}
	http    *ondemand.Server
}

// NewForwarder builds a forwarder to the collector that the environment names. Without one, or with a
// mistake in the environment, it refuses every message with the reason. It ends after a time without a
// connection.
func NewForwarder(unused time.Duration, logger *slog.Logger) *Forwarder {
	f := &Forwarder{slots: make(chan struct{}, maxForwards)}
	f.timeout, _ = timeout()
	if f.client, f.broken = newClient(); f.broken != nil && !errors.Is(f.broken, errNoCollector) {
		logger.Warn("traces cannot be sent", "error", f.broken)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+traces.Path, f.forward)
	f.http = ondemand.NewServer(mux, traces.CollectorTime, unused, logger)
	return f
}

// Run accepts connections until ctx ends or the time without one is over, and finishes the messages that it
// has accepted; then it returns nil.
func (f *Forwarder) Run(ctx context.Context, l net.Listener) error {
	err := f.http.Run(ctx, l)
	if f.broken == nil {
		err = errors.Join(err, f.client.Stop(context.WithoutCancel(ctx)))
	}
	return err
}

// forward serves POST /v1/traces.
func (f *Forwarder) forward(w http.ResponseWriter, r *http.Request) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		refuse(w, http.StatusServiceUnavailable, errors.New("too many messages are on their way to the collector"))
		return
	}
	if f.broken != nil { // a daemon of the time before a reload may still have spans
		refuse(w, http.StatusGone, f.broken)
		return
	}
	message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, traces.MaxMessage))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	var request otlp.ExportTraceServiceRequest
	if err := proto.Unmarshal(message, &request); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("cannot read the spans: %v", err))
		return
	}
	f.export(w, r, &request)
}

func (f *Forwarder) export(w http.ResponseWriter, r *http.Request, request *otlp.ExportTraceServiceRequest) {
	ctx, cancel := context.WithTimeout(r.Context(), f.timeout)
	defer cancel()
	ctx, answer := withAnswer(ctx)
	err := f.client.UploadTraces(ctx, request.ResourceSpans)
	switch {
	case answer.reason != "":
		refuse(w, answer.status, errors.New(answer.reason))
	case answer.status == 0 && err != nil:
		refuse(w, http.StatusBadGateway, err)
	case answer.status/100 != 2:
		w.WriteHeader(answer.status)
	default:
		_, _ = w.Write(answer.message()) // an error means that the daemon has gone
	}
}

func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set(ondemand.ReasonHeader, err.Error())
	w.WriteHeader(status)
}
