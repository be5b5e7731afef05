package traces

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"time"

	"codex-proxy/proxy/ondemand"
)

const (
	// forwardTime bounds one message on its way to the collector and back.
	forwardTime = 10 * time.Second
	// maxMessage bounds one: a batch of the largest spans is half of it.
	maxMessage = 4 << 20
	// maxForwards is how many may be on their way: two daemons, after a reload.
	maxForwards = 4
)

var errNoCollector = errors.New("no collector is configured")

// Forwarder sends on to a collector what daemons hand over. Create it with
// NewForwarder.
type Forwarder struct {
	endpoint string
	header   http.Header
	client   http.Client
	slots    chan struct{}
	http     *ondemand.Server
}

// NewForwarder builds a forwarder to the collector at the URL endpoint; if that is
// empty it takes nothing. It adds header to each request, and ends when it had no connection for unused.
func NewForwarder(endpoint string, header http.Header, unused time.Duration, logger *slog.Logger) *Forwarder {
	f := &Forwarder{endpoint: endpoint, header: header, slots: make(chan struct{}, maxForwards)}
	f.client = http.Client{
		Timeout: forwardTime,
		// The header is for the endpoint, and for nobody to whom that sends us.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: forwardTime, MaxResponseHeaderBytes: 64 << 10,
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+tracesPath, f.forward)
	f.http = ondemand.NewServer(mux, forwardTime, unused, logger)
	return f
}

// Run accepts until ctx ends or nobody has connected for long enough, and
// finishes what it has accepted; then it returns nil.
func (f *Forwarder) Run(ctx context.Context, l net.Listener) error {
	defer f.client.CloseIdleConnections()
	return f.http.Run(ctx, l)
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
	if f.endpoint == "" { // the daemon before a reload may still have some
		refuse(w, http.StatusGone, errNoCollector)
		return
	}
	message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	status, answer, err := f.post(r.Context(), message)
	if err != nil {
		refuse(w, http.StatusBadGateway, err)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // an error is a daemon that has gone
}

func (f *Forwarder) post(ctx context.Context, message []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.endpoint, bytes.NewReader(message))
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(r.Header, f.header)
	r.Header.Set("Content-Type", contentType)
	res, err := f.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, answer, err
}

func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set(ondemand.ReasonHeader, err.Error())
	w.WriteHeader(status)
}
