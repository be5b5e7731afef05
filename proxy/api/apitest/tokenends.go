package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Charged waits until the tokens of the key have reached those numbers, at least.
func (r *Rig) Charged(t testing.TB, bearer string, input, output int64) {
	t.Helper()
	Await(t, Tick(t), func() bool {
		resp := Text(t, r.Do(t, http.MethodGet, "/metrics", "", "Authorization", bearer))
		return Sampled(resp, `codex_usage_tokens_total{key="alice",kind="input",model="demo"} `) >= input &&
			Sampled(resp, `codex_usage_tokens_total{key="alice",kind="output",model="demo"} `) >= output
	})
}

// Sampled is the value of a metric in an exposition, 0 if it has none.
func Sampled(exposition, name string) (n int64) {
	_, rest, _ := strings.Cut(exposition, name)
	line, _, _ := strings.Cut(rest, "\n")
	_ = json.Unmarshal([]byte(line), &n)
	return n
}
