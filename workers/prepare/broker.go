package prepare

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"codex-proxy/internal/ondemand"
	"codex-proxy/internal/paths"
	"codex-proxy/workers/codexhome"
)

// brokerBound is how long a start waits for the broker, which may start meanwhile.
const brokerBound = 10 * time.Second

// brokerAddress is where codex finds the broker with this socket; empty: there is none.
func brokerAddress(socket string) string {
	if socket == "" {
		return ""
	}
	return paths.BrokerAddress
}

// askBroker returns the fault of the broker's settings: without its key a worker does not start.
func askBroker(ctx context.Context, socket string) error {
	if socket == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, brokerBound)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://broker/", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("the broker of the worker does not answer: %w: %w", err, codexhome.ErrRetry)
	}
	_ = res.Body.Close()
	if reason := res.Header.Get(ondemand.ReasonHeader); reason != "" {
		return &codexhome.Problem{Text: reason}
	}
	return nil
}
