package apitest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/contract"
)

// Completing posts a prompt for the demo model to /v1/completions; extra goes in front.
func (r *Rig) Completing(t testing.TB, extra string, header ...string) *http.Response {
	t.Helper()
	return r.Do(t, http.MethodPost, "/v1/completions", `{`+extra+`"model":"demo","prompt":"Once"}`, header...)
}

// Completed is an answer of /v1/completions of n choices, judged by OpenAI's schema.
func Completed(t testing.TB, resp *http.Response, n int) []contract.Answer {
	t.Helper()
	schema, err := contract.Compile()
	require.NoError(t, err)
	body := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	var answers []contract.Answer
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		answers, err = schema.TextStream(strings.NewReader(body), n)
	} else {
		answers, err = schema.TextCompletion([]byte(body), n)
	}
	require.NoError(t, err, body)
	for _, a := range answers {
		assert.Regexp(t, "^cmpl-[0-9a-f]{24}$", a.ID)
		assert.Equal(t, "demo", a.Model)
		assert.Nil(t, a.Failure)
	}
	return answers
}
