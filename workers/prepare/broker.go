package prepare

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"codex-proxy/internal/ondemand"
	"codex-proxy/workers/codexhome"
)

// BrokerVariable has the address of the worker's broker, in the environment of its unit.
const BrokerVariable = "CODEX_MODEL_BROKER"

// brokerBound is how long a start waits for the broker, which may start meanwhile.
const brokerBound = 10 * time.Second

// askBroker returns the fault of the broker's settings: without its key a worker does not start.
func askBroker(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, brokerBound)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+address+"/", http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("the broker of the worker does not answer: %w: %w", err, codexhome.ErrRetry)
	}
	_ = res.Body.Close()
	if reason := res.Header.Get(ondemand.ReasonHeader); reason != "" {
		return &codexhome.Problem{Text: reason}
	}
	return nil
}
