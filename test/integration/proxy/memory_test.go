package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// hostile are bodies that take much memory for their size: the ones that the search of
// package proxy finds, in the allowed size.
func hostile() map[string][]string {
	const size = 15 << 20
	many := func(element string, n int) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	long := func(piece string) string { return `"` + strings.Repeat(piece, size/len(piece)) + `"` }
	chat := func(messages string) string { return `{"model":"demo","stream":true,"messages":[` + messages + `]}` }
	user := func(words string) string { return `{"role":"user","content":` + words + `}` }
	calls := `{"role":"assistant","tool_calls":[` + many("{}", 9000) + `]}`
	return map[string][]string{
		"/v1/chat/completions": {
			chat(many(calls, 500)), chat(many(calls, 55)), chat(user(long("x"))), chat(user(long(`\n`))),
			chat(user(long(`\u0001`))), chat(user(long("é"))),
			chat(`{"role":"system","content":` + long("<") + `},` + user(`"x"`)),
			chat(many(user(`[`+many(`{"type":"text","text":""}`, 1000)+`]`), 95)),
			`{"model":"demo","n":4,"messages":[` + user(long("x")) + `]}`,
			`{"model":"demo","messages":[` + user(`"x"`) +
				`],"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","description":` + long("x") + `}}}}`,
		},
		"/v1/responses": {
			`{"model":"demo","input":"x","instructions":` + long("<") + `}`,
			`{"model":"demo","input":"x","stream":true,"instructions":` + long("x") + `}`,
			`{"model":"demo","stream":true,"input":` + long(`\"`) + `}`,
			`{"model":"demo","input":[` + many(`{"role":"user","content":""}`, 10_000) + `]}`,
			`{"model":"demo","input":[` + many(user(`[`+many(`{"type":"input_text","text":""}`, 9000)+`]`), 11) + `]}`,
			`{"model":"demo","input":"x","text":{"format":{"type":"json_schema","name":"a","schema":{"type":"object","description":` + long("x") + `}}}}`,
		},
	}
}

// The process takes no more at rest than its bound, and at most twice request_memory for hostile bodies that
// come at the same time.
func TestPeakMemory(t *testing.T) {
	bed.Alone(t)
	const limit = 128 << 10 // KiB
	b := bed.New(t, bed.Newest, `mode = "demo"`, fmt.Sprintf("request_memory = %d\nqueue_timeout = \"100m\"\n", limit<<10))
	b.Start()
	proxy := b.OnlyProcess(bed.ProxyUnit).Host
	const rest = 22 << 10 // KiB
	await.True(t, func() bool { return bed.RSS(b, proxy) <= rest }, bed.Bound, "it takes more than 22 MiB at rest")
	t.Logf("%d KiB at rest", bed.RSS(b, proxy))
	idle := bed.ProxyMemory(b, proxy, "VmHWM")
	ctx, cancel := context.WithTimeout(t.Context(), 5*bed.Bound)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for path, bodies := range hostile() {
		for _, body := range bodies {
			g.Go(func() error { return attack(b, ctx, path, body) })
		}
	}
	require.NoError(t, g.Wait())
	peak := bed.ProxyMemory(b, proxy, "VmHWM")
	t.Logf("idle %d MiB, peak %d MiB: %.2f times request_memory", idle>>10, peak>>10, float64(peak-idle)/limit)
	assert.LessOrEqual(t, peak, 2*limit+idle)
}

// attack sends a body, which waits until there is room for it.
func attack(b *bed.Bed, ctx context.Context, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b.T.Logf("%d bytes, %.40s…: %s", len(body), body, res.Status)
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%.40s…: %s", body, res.Status)
	}
	return nil
}
