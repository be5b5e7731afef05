package modelproxy

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"codex-proxy/broker/upstream"
)

const (
	// ProbePath is where a proxy for a worker answers whether it reaches its endpoint.
	ProbePath = "/.broker/probe"
	// ProbeHeader has the reason of a failure in that answer. It is empty if the endpoint answers, whatever it answers.
	ProbeHeader = "Broker-Reason"
	// probeBound bounds a probe.
	probeBound = 9500 * time.Millisecond
)

// probing answers probes with requests that have no key, and passes on all others.
func probing(endpoint *url.URL, transport http.RoundTripper, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != ProbePath || r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set(ProbeHeader, string(probe(r.Context(), endpoint, transport)))
	})
}

// probe returns the reason why the endpoint does not answer.
func probe(ctx context.Context, endpoint *url.URL, transport http.RoundTripper) upstream.Reason {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	target := *endpoint
	target.User, target.RawQuery = nil, ""
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, target.JoinPath("models").String(), http.NoBody)
	if err != nil {
		return upstream.Cut
	}
	res, err := transport.RoundTrip(r)
	switch {
	case err == nil:
		_ = res.Body.Close()
		return ""
	case ctx.Err() != nil:
		return upstream.NoAnswer
	}
	return upstream.ReasonOf(err)
}
