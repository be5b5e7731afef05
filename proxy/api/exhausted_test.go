package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/workers/accounts"
)

// twoAccounts is a server with the accounts a and b, whose quota decides.
func twoAccounts(t *testing.T, change func(*accounts.Policy)) *rig {
	t.Helper()
	policy := accounts.Policy{
		Rotation: accounts.Ordered, Order: []string{"a", "b"}, RotateAt: 0.05, ReadyWhenExhausted: true,
	}
	if change != nil {
		change(&policy)
	}
	r := newRig(t, nil, func(o *options) {
		o.policy = policy
		o.others = map[string]*appservertest.Server{"a": {}, "b": {}}
	})
	r.haveReadings(t)
	return r
}

// exhaust uses up both accounts, a for longer than b; zero times: nothing is known of it.
func exhaust(r *rig, a, b time.Time) {
	r.pool.Book().Refuse("a", a, time.Now())
	r.pool.Book().Refuse("b", b, time.Now())
}

var inAWhile = func() time.Time { return time.Now().Add(40 * time.Second) }

func TestExhaustedAccountsAnswer429(t *testing.T) {
	soon := inAWhile()
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
			r := twoAccounts(t, nil)
			exhaust(r, tc.a, tc.b)
			for path, body := range map[string]string{
				"/v1/chat/completions": hello(""), "/v1/completions": `{"model":"demo","prompt":"hello"}`,
				"/v1/responses": `{"model":"demo","input":"hello"}`,
			} {
				for _, body := range []string{body, strings.Replace(body, `{`, `{"stream":true,`, 1)} {
					resp := r.do(t, http.MethodPost, path, body)
					e := failure(t, text(t, resp)).Error
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
			assert.NotContains(t, r.log.String(), `"level":"ERROR"`)
		})
	}
}

func TestExhaustedAccountsOnAWebSocket(t *testing.T) {
	r := twoAccounts(t, nil)
	until := inAWhile()
	exhaust(r, until, until)
	k := r.socket(t)
	k.say(`{"type":"response.create","model":"demo","input":"hello"}`)
	got := k.hear()
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	assert.Contains(t, string(raw), "usage_limit_reached")
	assert.Contains(t, string(raw), until.UTC().Format(time.RFC3339))
}

// Of accounts that an operator has to mend, no client is sent away for their quota.
func TestAccountsThatAreOut(t *testing.T) {
	t.Parallel()
	r := twoAccounts(t, nil)
	answer := func() (int, string, string) {
		resp := r.chatting(t, hello(""))
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, "60", resp.Header.Get("Retry-After"))
		return resp.StatusCode, e.Code, e.Message
	}
	r.pool.Book().Invalidate("a", time.Now())
	assert.Equal(t, http.StatusOK, r.chatting(t, hello("")).StatusCode, "b serves")
	r.pool.Book().Invalidate("b", time.Now())
	status, code, message := answer()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "upstream_unauthorized", code)
	assert.Contains(t, message, "codex-proxy accounts login NAME")
	require.NoError(t, r.pool.Book().Pause("a", true))
	require.NoError(t, r.pool.Book().Pause("b", true))
	status, code, message = answer()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "worker_not_ready", code)
	assert.Contains(t, message, "codex-proxy accounts resume NAME")
}

// A turn goes on as soon as a reading shows quota, and not before.
func TestExhaustedAccountServesAfterAReading(t *testing.T) {
	t.Parallel()
	r := twoAccounts(t, nil)
	past := time.Now().Add(-time.Second)
	exhaust(r, past, past)
	resp := r.chatting(t, hello(""))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "the reset is past, and nothing was read")
	r.pool.Book().Read("b", "", accounts.Quota{
		Windows: []accounts.Window{accounts.NewWindow(300, 0.1, time.Time{})}, Source: accounts.Reading, At: time.Now(),
	})
	resp = r.chatting(t, hello(""))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestReadyWhenExhausted(t *testing.T) {
	for _, ready := range []bool{true, false} {
		r := twoAccounts(t, func(p *accounts.Policy) { p.ReadyWhenExhausted = ready })
		readiness := func(path string) (int, probes.Report) {
			resp := r.do(t, http.MethodGet, path, "")
			var report probes.Report
			require.NoError(t, json.Unmarshal([]byte(text(t, resp)), &report))
			return resp.StatusCode, report
		}
		status, report := readiness("/readyz")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, probes.Ready, report.Health.Readiness.Reason)

		until := inAWhile()
		exhaust(r, until, until)
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
	r := twoAccounts(t, func(p *accounts.Policy) { p.Rotation = accounts.Off })
	exhaust(r, inAWhile(), inAWhile())
	assert.Equal(t, http.StatusOK, r.chatting(t, hello("")).StatusCode)
	assert.Equal(t, http.StatusOK, r.do(t, http.MethodGet, "/readyz", "").StatusCode)
}

// The journal has the line of each request, and no further one a request.
func TestExhaustedAccountsLogNoEventARequest(t *testing.T) {
	r := twoAccounts(t, nil)
	exhaust(r, inAWhile(), inAWhile())
	before := r.log.String()
	for range 5 {
		resp := r.chatting(t, hello(""))
		r.log.request(t, resp.Header.Get("X-Request-Id"))
	}
	for line := range strings.Lines(strings.TrimPrefix(r.log.String(), before)) {
		assert.True(t, strings.Contains(line, `"msg":"request"`) || strings.Contains(line, `"level":"DEBUG"`), line)
	}
}
