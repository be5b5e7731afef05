package bed

import (
	"context"
	"regexp"
	"strings"

	"codex-proxy/test/await"

	"github.com/stretchr/testify/require"
)

// UntilMetric waits for a line of the metrics.
func (b *Bed) UntilMetric(line string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	defer cancel()
	b.UntilMetricWithin(ctx, line)
}

// UntilMetricWithin waits until /metrics has the line, or fails at the end of ctx.
func (b *Bed) UntilMetricWithin(ctx context.Context, line string) {
	b.T.Helper()
	for pace := (await.Pace{}); ; pace.Pause(ctx) {
		_, text := b.Get("/metrics")
		if strings.Contains(string(text), line+"\n") {
			return
		}
		if ctx.Err() != nil {
			about := regexp.MustCompile(`(?m)^codex_(worker_rate_limit|account).*$`).FindAllString(string(text), -1)
			require.Fail(b.T, "never "+line, "%q", about)
		}
	}
}
