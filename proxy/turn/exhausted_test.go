package turn_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/workers/accounts"
)

func TestExhaustedAccountsAnswer429(t *testing.T) {
	soon := apitest.InAWhile()
	later := soon.Add(time.Hour)
	for name, tc := range map[string]struct {
		a, b     time.Time
		least    int
		most     int
		contains string
	}{
		"in less than a minute": {later, soon, 1, 40, soon.UTC().Format(time.RFC3339)},
		"later":                 {later, later.Add(time.Hour), 60, 60, later.UTC().Format(time.RFC3339)},
		"unknown":               {time.Time{}, time.Time{}, 60, 60, "nothing is known"},
	} {
		t.Run(name, func(t *testing.T) {
			r := apitest.TwoAccounts(t, nil)
			apitest.Exhaust(r, tc.a, tc.b)
			for path, body := range map[string]string{
				"/v1/chat/completions": apitest.Hello(""), "/v1/completions": `{"model":"demo","prompt":"hello"}`,
				"/v1/responses": `{"model":"demo","input":"hello"}`,
			} {
				for _, body := range []string{body, strings.Replace(body, `{`, `{"stream":true,`, 1)} {
					resp := r.Do(t, http.MethodPost, path, body)
					e := apitest.Failure(t, apitest.Text(t, resp)).Error
					assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode, path)
					assert.Equal(t, "usage_limit_reached", e.Code, path)
					assert.Equal(t, "insufficient_quota", e.Type, path)
					assert.Contains(t, e.Message, tc.contains, path)
					after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
					require.NoError(t, err)
					assert.True(t, tc.least <= after && after <= tc.most, "%d s", after)
					assert.Equal(t, "true", resp.Header.Get("X-Should-Retry"), "libraries come back")
				}
			}
			assert.NotContains(t, r.Log.String(), `"level":"ERROR"`)
		})
	}
}

func TestExhaustedAccountsOnAWebSocket(t *testing.T) {
	r := apitest.TwoAccounts(t, nil)
	until := apitest.InAWhile()
	apitest.Exhaust(r, until, until)
	k := r.Socket(t)
	k.Say(`{"type":"response.create","model":"demo","input":"hello"}`)
	got := k.Hear()
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	assert.Contains(t, string(raw), "usage_limit_reached")
	assert.Contains(t, string(raw), until.UTC().Format(time.RFC3339))
}

// Of accounts that an operator has to mend, no client is sent away for their quota.
func TestAccountsThatAreOut(t *testing.T) {
	t.Parallel()
	r := apitest.TwoAccounts(t, nil)
	answer := func() (int, string, string) {
		resp := r.Chatting(t, apitest.Hello(""))
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "60", resp.Header.Get("Retry-After"))
		return resp.StatusCode, e.Code, e.Message
	}
	r.Pool.AccountStore().Invalidate("a", time.Now())
	assert.Equal(t, http.StatusOK, r.Chatting(t, apitest.Hello("")).StatusCode, "b serves")
	r.Pool.AccountStore().Invalidate("b", time.Now())
	status, code, message := answer()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "upstream_unauthorized", code)
	assert.Contains(t, message, "codex-proxy accounts login NAME")
	require.NoError(t, r.Pool.AccountStore().Pause("a", true))
	require.NoError(t, r.Pool.AccountStore().Pause("b", true))
	status, code, message = answer()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "worker_not_ready", code)
	assert.Contains(t, message, "codex-proxy accounts resume NAME")
}

// A turn goes on as soon as a reading shows quota, and not before.
func TestExhaustedAccountServesAfterAReading(t *testing.T) {
	t.Parallel()
	r := apitest.TwoAccounts(t, nil)
	past := time.Now().Add(-time.Second)
	apitest.Exhaust(r, past, past)
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "the reset is past, and nothing was read")
	r.Pool.AccountStore().Read("b", "", accounts.Quota{
		Windows: []accounts.Window{accounts.NewWindow(300, 0.1, time.Time{})}, Source: accounts.Reading, At: time.Now(),
	})
	resp = r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestReadyWhenExhausted(t *testing.T) {
	for _, ready := range []bool{true, false} {
		r := apitest.TwoAccounts(t, func(p *accounts.Policy) { p.ReadyWhenExhausted = ready })
		readiness := func(path string) (int, probes.Report) {
			resp := r.Do(t, http.MethodGet, path, "")
			var report probes.Report
			require.NoError(t, json.Unmarshal([]byte(apitest.Text(t, resp)), &report))
			return resp.StatusCode, report
		}
		status, report := readiness("/readyz")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, probes.Ready, report.Health.Readiness.Reason)

		until := apitest.InAWhile()
		apitest.Exhaust(r, until, until)
		want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[ready]
		status, report = readiness("/readyz")
		assert.Equal(t, want, status)
		assert.Equal(t, ready, report.Health.Readiness.Ready)
		assert.Equal(t, probes.QuotaExhausted, report.Health.Readiness.Reason)
		assert.Contains(t, report.Health.Readiness.Details, until.UTC().Format(time.RFC3339))
		status, report = readiness("/livez")
		assert.Equal(t, http.StatusOK, status)
		assert.True(t, report.Health.Liveness.Live)
	}
}

// Without a rotation the quota is shown, and decides nothing.
func TestExhaustedAccountsServeWithoutRotation(t *testing.T) {
	t.Parallel()
	r := apitest.TwoAccounts(t, func(p *accounts.Policy) { p.Rotation = accounts.Off })
	apitest.Exhaust(r, apitest.InAWhile(), apitest.InAWhile())
	assert.Equal(t, http.StatusOK, r.Chatting(t, apitest.Hello("")).StatusCode)
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/readyz", "").StatusCode)
}

// The journal has the line of each request, and no further one a request.
func TestExhaustedAccountsLogNoEventARequest(t *testing.T) {
	r := apitest.TwoAccounts(t, nil)
	apitest.Exhaust(r, apitest.InAWhile(), apitest.InAWhile())
	before := r.Log.String()
	for range 5 {
		resp := r.Chatting(t, apitest.Hello(""))
		r.Log.Request(t, resp.Header.Get("X-Request-Id"))
	}
	for line := range strings.Lines(strings.TrimPrefix(r.Log.String(), before)) {
		assert.True(t, strings.Contains(line, `"msg":"request"`) || strings.Contains(line, `"level":"DEBUG"`), line)
	}
}
