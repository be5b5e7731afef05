package limits_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// Each endpoint counts its requests, errors, durations and tokens under its own path, and has a line in the journal.
func TestEveryEndpointIsAccountedFor(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "x")}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys = keys })
	bearer := []string{"Authorization", "Bearer " + secrets[0]}
	_, id := r.Talk(t, `{}`, bearer...)
	const input, hi = `"model":"demo","input":"hi"}`, `[{"role":"user","content":"hi"}]`
	const one, items = "/v1/conversations/{conversation}", "/v1/conversations/{conversation}/items"
	for n, a := range []apitest.Accounted{
		{Path: "/v1/chat/completions", Body: apitest.Hello(""), Turn: true},
		{Path: "/v1/completions", Body: `{"model":"demo","prompt":"hi"}`, Turn: true},
		{Path: "/v1/responses", Body: "{" + input, Turn: true},
		{Path: "/v1/responses", Body: `{"stream":true,` + input, Turn: true, Stream: true},
		{Path: "/v1/responses", Body: apitest.Asked("", strings.TrimSuffix(hi, "]")+`,{"type":"compaction_trigger"}]`), Turn: true},
		{Path: "/v1/responses/compact", Body: "{" + input, Turn: true},
		{Path: "/v1/responses/input_tokens", Body: "{" + input},
		{Path: "/v1/messages", Body: apitest.MessageOf("", hi), Turn: true},
		{Path: "/v1/messages", Body: apitest.MessageOf(apitest.Streaming, hi), Turn: true, Stream: true},
		{Path: "/v1/messages/count_tokens", Body: `{"model":"demo","messages":` + hi + `}`},
		{Path: "/v1/conversations", Body: `{}`},
		{Path: "/v1/conversations/" + id, Route: one, Body: `{"metadata":{}}`},
		{Path: "/v1/conversations/" + id + "/items", Route: items, Body: `{"items":` + hi + `}`},
		{Method: http.MethodGet, Path: "/v1/conversations/" + id + "/items", Route: items},
		{Method: http.MethodGet, Path: "/v1/conversations/" + id, Route: one},
		{Method: http.MethodDelete, Path: "/v1/conversations/" + id, Route: one},
	} {
		if a.Method == "" {
			a.Method = http.MethodPost
		}
		if a.Route == "" {
			a.Route = a.Path
		}
		t.Run(a.Method+" "+a.Path, func(t *testing.T) { r.Account(t, a, strconv.Itoa(n), bearer) })
	}
}
