package brokercheck

import (
	"context"
	"net"
	"net/http"

	"codex-proxy/broker/modelproxy"
	"codex-proxy/broker/upstream"
)

// Ask is a Probe of this machine.
func Ask(ctx context.Context, socket string) (upstream.Reason, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://broker"+modelproxy.ProbePath, http.NoBody)
	if err != nil {
		return "", err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	return upstream.Reason(res.Header.Get(modelproxy.ProbeHeader)), res.Body.Close()
}
