package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/workers/accounts"
)

var update = flag.Bool("update", false, "write the golden files")

var sample = regexp.MustCompile(`(?m)^([a-z_]+(?:\{.*\})?) \S+$`)

// limitedAccount makes a worker of one with limits.
var limitedAccount = map[string]appservertest.Fault{
	"account/read": answerWith(`{"account":{"type":"chatgpt","email":"a@example.com","planType":"pro"},"requiresOpenaiAuth":true}`),
	"account/rateLimits/read": answerWith(`{"rateLimits":{"primary":{"usedPercent":42,"windowDurationMins":300,"resetsAt":4102444800},
		"secondary":{"usedPercent":7,"windowDurationMins":10080,"resetsAt":4102444800}}}`),
}

func answerWith(result string) appservertest.Fault {
	return func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
		p.Reply(id, json.RawMessage(result))
		return true
	}
}

// The whole exposition, values aside: names, types, help and labels are what
// dashboards and alerts rest on.
func TestMetricsGolden(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=3 tokens-per-minute=1000 tokens-per-day=2000 concurrent=3")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "x"), Faults: limitedAccount},
		func(o *apitest.Options) { o.Keys = keys })
	require.Eventually(t, func() bool {
		a := accounts.Known(r.Pool.AccountStore(), time.Now())
		return len(a) == 1 && len(a[0].Limits) == 2
	}, apitest.Bound, time.Millisecond)
	r.Client.Transport.(*http.Transport).MaxConnsPerHost = 1 // a request is counted before the next on its connection is read
	bearer := "Bearer " + secrets[0]
	apitest.Text(t, r.Chatting(t, apitest.Hello(apitest.Streaming), "Authorization", bearer))
	apitest.Text(t, r.Chatting(t, "{", "Authorization", bearer))
	apitest.Text(t, r.Chatting(t, `{"model":"nothing","messages":[{"role":"user","content":"x"}]}`, "Authorization", bearer))
	apitest.Text(t, r.Chatting(t, apitest.Hello(""), "Authorization", bearer))
	apitest.Text(t, r.Do(t, http.MethodGet, "/nowhere", ""))
	apitest.Text(t, r.Do(t, "BREW", "/livez", "")) // no label of the client's making
	for _, path := range []string{"/v1/models", "/livez", "/metrics"} {
		apitest.Text(t, r.Do(t, http.MethodGet, path, "", "Authorization", bearer))
	}
	exposition := apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", ""))
	got := sample.ReplaceAllString(exposition, "$1 VALUE")

	golden := filepath.Join("testdata", "metrics.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "if this is meant: go test ./proxy -run TestMetricsGolden -update")

	for _, line := range []string{
		`codex_http_requests_total{method="POST",route="/v1/chat/completions",status="200"} 1`,
		`codex_http_requests_total{method="POST",route="/v1/chat/completions",status="400"} 1`,
		`codex_http_requests_total{method="GET",route="other",status="404"} 1`,
		`codex_http_requests_total{method="other",route="other",status="405"} 1`,
		`codex_http_errors_total{code="invalid_json",route="/v1/chat/completions"} 1`,
		`codex_http_request_duration_seconds_count{route="/v1/chat/completions"} 4`,
		`codex_tokens_total{kind="input"} 20`,
		`codex_tokens_total{kind="output"} 7`,
		`codex_usage_requests_total{key="alice",model="demo"} 1`,
		`codex_usage_tokens_total{key="alice",kind="input",model="demo"} 20`,
		`codex_usage_tokens_total{key="alice",kind="output",model="demo"} 7`,
		`codex_key_limit{key="alice",limit="tokens-per-day"} 2000`,
		`codex_key_used{key="alice",limit="tokens-per-day"} 27`,
		`codex_key_used{key="alice",limit="concurrent"} 0`,
		`codex_key_refused_total{key="alice",limit="requests-per-minute"} 1`,
		`codex_streams_active 0`,
		`codex_ready 1`,
		`codex_worker_ready{worker="default"} 1`,
		`codex_worker_rate_limit_used_ratio{window="5h",worker="default"} 0.42`,
		`codex_worker_rate_limit_reset_timestamp_seconds{window="7d",worker="default"} 4.1024448e+09`,
		`codex_worker_inflight{worker="default"} 0`,
	} {
		assert.Contains(t, exposition, line+"\n")
	}
}

// Two names are kept for the dashboards that know them.
func TestMetricsLint(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")})
	apitest.Text(t, r.Chatting(t, apitest.Hello("")))
	apitest.Text(t, r.Chatting(t, "{"))
	problems, err := testutil.GatherAndLint(r.Registry)
	require.NoError(t, err)
	for _, p := range problems {
		if p.Metric != "codex_worker_latency_ms" && p.Metric != "codex_worker_backoff_ms" {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestStreamsActive(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "x")})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming), "X-Request-Id", "s")
	body := bufio.NewReader(resp.Body)
	apitest.Frame(t, body)
	assert.Equal(t, "1", apitest.Metric(t, r, "codex_streams_active"))
	assert.Equal(t, "1", apitest.Metric(t, r, `codex_worker_inflight{worker="default"}`))
	close(gate)
	apitest.Text(t, apitest.Unread(resp, body))
	r.Log.Request(t, "s")
	assert.Equal(t, "0", apitest.Metric(t, r, "codex_streams_active"))
	assert.Equal(t, "0", apitest.Metric(t, r, `codex_worker_inflight{worker="default"}`))
}
