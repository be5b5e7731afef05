package api

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// accounted is a request, and what is counted of it.
type accounted struct {
	method, path, route, body string
	turn                      bool // a turn runs for it
	stream                    bool
}

// Each endpoint counts its requests, errors, durations and tokens under its own path, and has a line in the journal.
func TestEveryEndpointIsAccountedFor(t *testing.T) {
	keys, secrets := withKeys(t, "alice")
	r := newRig(t, &appservertest.Server{Handler: answering(someUsage, "x")}, keeping(t), func(o *options) { o.Keys = keys })
	bearer := []string{"Authorization", "Bearer " + secrets[0]}
	_, id := r.talk(t, `{}`, bearer...)
	const input, hi = `"model":"demo","input":"hi"}`, `[{"role":"user","content":"hi"}]`
	const one, items = "/v1/conversations/{conversation}", "/v1/conversations/{conversation}/items"
	for n, a := range []accounted{
		{path: "/v1/chat/completions", body: hello(""), turn: true},
		{path: "/v1/completions", body: `{"model":"demo","prompt":"hi"}`, turn: true},
		{path: "/v1/responses", body: "{" + input, turn: true},
		{path: "/v1/responses", body: `{"stream":true,` + input, turn: true, stream: true},
		{path: "/v1/responses", body: asked("", strings.TrimSuffix(hi, "]")+`,{"type":"compaction_trigger"}]`), turn: true},
		{path: "/v1/responses/compact", body: "{" + input, turn: true},
		{path: "/v1/responses/input_tokens", body: "{" + input},
		{path: "/v1/messages", body: messageOf("", hi), turn: true},
		{path: "/v1/messages", body: messageOf(streaming, hi), turn: true, stream: true},
		{path: "/v1/messages/count_tokens", body: `{"model":"demo","messages":` + hi + `}`},
		{path: "/v1/conversations", body: `{}`},
		{path: "/v1/conversations/" + id, route: one, body: `{"metadata":{}}`},
		{path: "/v1/conversations/" + id + "/items", route: items, body: `{"items":` + hi + `}`},
		{method: http.MethodGet, path: "/v1/conversations/" + id + "/items", route: items},
		{method: http.MethodGet, path: "/v1/conversations/" + id, route: one},
		{method: http.MethodDelete, path: "/v1/conversations/" + id, route: one},
	} {
		if a.method == "" {
			a.method = http.MethodPost
		}
		if a.route == "" {
			a.route = a.path
		}
		t.Run(a.method+" "+a.path, func(t *testing.T) { r.account(t, a, strconv.Itoa(n), bearer) })
	}
}

// account sends the request, and another one that is refused, and compares what is counted.
func (r *rig) account(t *testing.T, a accounted, id string, header []string) {
	t.Helper()
	ends := int64(0)
	if a.turn {
		ends = 1
	}
	streams := int64(0)
	if a.stream {
		streams = 1
	}
	before := r.exposition(t)
	resp := r.do(t, a.method, a.path, a.body, append(header, "X-Request-Id", "good-"+id)...)
	answer := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	line := r.log.request(t, "good-"+id)
	text(t, r.do(t, http.MethodPost, a.route, "{", append(header, "X-Request-Id", "bad-"+id)...))
	bad := r.log.request(t, "bad-"+id)
	after := r.exposition(t)
	grown := func(sample string) int64 { return after[sample] - before[sample] }

	label := `{route="` + a.route + `"}`
	assert.EqualValues(t, 1, grown(`codex_http_requests_total{method="`+a.method+`",route="`+a.route+`",status="200"}`))
	assert.EqualValues(t, 2, grown("codex_http_request_duration_seconds_count"+label))
	assert.EqualValues(t, 1, grown(`codex_http_errors_total{code="`+bad["outcome"].(string)+`",route="`+a.route+`"}`))
	assert.Equal(t, ends, grown("codex_http_first_byte_seconds_count"+label))
	assert.Equal(t, streams, grown(`codex_stream_ends_total{cause="finished"}`))
	assert.Equal(t, ends*20, grown(`codex_tokens_total{kind="input"}`))
	assert.Equal(t, ends*7, grown(`codex_usage_tokens_total{key="alice",kind="output",model="demo"}`))
	assert.Equal(t, ends, grown(`codex_usage_requests_total{key="alice",model="demo"}`))
	assert.Equal(t, ends, grown(`codex_turns_total{outcome="completed"}`))

	assert.Equal(t, a.route, line["route"])
	assert.Equal(t, "ok", line["outcome"])
	assert.Equal(t, "alice", line["key"])
	assert.Equal(t, a.turn, line["input_tokens"] != nil)
	assert.Equal(t, a.turn, line["thread_id"] != nil)
	assert.Equal(t, strings.Contains(a.body, `"model"`), line["model"] != nil)
}

// exposition are all samples of whole values.
func (r *rig) exposition(t *testing.T) map[string]int64 {
	t.Helper()
	samples := map[string]int64{}
	for line := range strings.Lines(text(t, r.do(t, http.MethodGet, "/metrics", ""))) {
		at := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseInt(strings.TrimSpace(line[at+1:]), 10, 64); err == nil {
			samples[line[:at]] = value
		}
	}
	return samples
}
