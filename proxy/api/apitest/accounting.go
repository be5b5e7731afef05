package apitest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Accounted is a request, and what is counted of it.
type Accounted struct {
	Method, Path, Route, Body string
	Turn                      bool // a turn runs for it
	Stream                    bool
}

// Account sends the request, and another one that is refused, and compares what is counted.
func (r *Rig) Account(t testing.TB, a Accounted, id string, header []string) {
	t.Helper()
	ends := int64(0)
	if a.Turn {
		ends = 1
	}
	streams := int64(0)
	if a.Stream {
		streams = 1
	}
	before := r.exposition(t)
	resp := r.Do(t, a.Method, a.Path, a.Body, append(header, "X-Request-Id", "good-"+id)...)
	answer := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	line := r.Log.Request(t, "good-"+id)
	Text(t, r.Do(t, http.MethodPost, a.Route, "{", append(header, "X-Request-Id", "bad-"+id)...))
	bad := r.Log.Request(t, "bad-"+id)
	after := r.exposition(t)
	grown := func(sample string) int64 { return after[sample] - before[sample] }

	label := `{route="` + a.Route + `"}`
	assert.EqualValues(t, 1, grown(`codex_http_requests_total{method="`+a.Method+`",route="`+a.Route+`",status="200"}`))
	assert.EqualValues(t, 2, grown("codex_http_request_duration_seconds_count"+label))
	assert.EqualValues(t, 1, grown(`codex_http_errors_total{code="`+bad["outcome"].(string)+`",route="`+a.Route+`"}`))
	assert.Equal(t, ends, grown("codex_http_first_byte_seconds_count"+label))
	assert.Equal(t, streams, grown(`codex_stream_ends_total{cause="finished"}`))
	assert.Equal(t, ends*20, grown(`codex_tokens_total{kind="input"}`))
	assert.Equal(t, ends*7, grown(`codex_usage_tokens_total{key="alice",kind="output",model="demo"}`))
	assert.Equal(t, ends, grown(`codex_usage_requests_total{key="alice",model="demo"}`))
	assert.Equal(t, ends, grown(`codex_turns_total{outcome="completed"}`))

	assert.Equal(t, a.Route, line["route"])
	assert.Equal(t, "ok", line["outcome"])
	assert.Equal(t, "alice", line["key"])
	assert.Equal(t, a.Turn, line["input_tokens"] != nil)
	assert.Equal(t, a.Turn, line["thread_id"] != nil)
	assert.Equal(t, strings.Contains(a.Body, `"model"`), line["model"] != nil)
}

// exposition are all samples of whole values.
func (r *Rig) exposition(t testing.TB) map[string]int64 {
	t.Helper()
	samples := map[string]int64{}
	for line := range strings.Lines(Text(t, r.Do(t, http.MethodGet, "/metrics", ""))) {
		at := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseInt(strings.TrimSpace(line[at+1:]), 10, 64); err == nil {
			samples[line[:at]] = value
		}
	}
	return samples
}
