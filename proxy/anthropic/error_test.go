package anthropic

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
)

// Source: https://docs.anthropic.com/en/api/errors, "HTTP errors".
func TestErrorOf(t *testing.T) {
	for _, tc := range []struct {
		of     *openai.Error
		status int
		kind   string
	}{
		{openai.Invalid("invalid_value", "max_tokens", "m"), 400, TypeInvalidRequest},
		{&openai.Error{Status: http.StatusMethodNotAllowed, Message: "m"}, 405, TypeInvalidRequest},
		{&openai.Error{Status: http.StatusUnsupportedMediaType, Message: "m"}, 415, TypeInvalidRequest},
		{&openai.Error{Status: http.StatusUnauthorized, Message: "m"}, 401, TypeAuthentication},
		{&openai.Error{Status: http.StatusForbidden, Message: "m"}, 403, TypePermission},
		{openai.ModelNotFound("m"), 404, TypeNotFound},
		{openai.TooLarge("", "m"), 413, TypeTooLarge},
		{openai.TooMany(openai.TypeQuota, "usage_limit_reached", "m", time.Minute), 429, TypeRateLimit},
		{&openai.Error{Status: http.StatusInternalServerError, Message: "m"}, 500, TypeAPI},
		{openai.Unavailable("overloaded", "m", time.Second), 529, TypeOverloaded},
		{openai.Timeout("idle_timeout", "m"), 504, TypeTimeout},
	} {
		e := ErrorOf(tc.of, "req_1")
		assert.Equal(t, tc.status, e.Status, tc.of)
		assert.Equal(t, tc.kind, e.Type, tc.of)
		body, err := json.Marshal(e)
		require.NoError(t, err)
		assert.JSONEq(t, `{"type":"error","error":{"type":"`+tc.kind+`","message":"m"},"request_id":"req_1"}`,
			string(body))
	}
}

func TestTooLongAPromptHasTheWordsThatClientsKnow(t *testing.T) {
	e := ErrorOf(openai.ContextTooLong("messages", "prompt of 300000 tokens"), "req_1")
	assert.Equal(t, http.StatusBadRequest, e.Status)
	assert.Regexp(t, "^prompt is too long: .*prompt of 300000 tokens", e.Message)
	said := &openai.Error{Status: http.StatusBadRequest, Code: openai.CodeContextLength, Message: "prompt is too long"}
	assert.Equal(t, "prompt is too long", ErrorOf(said, "").Message)
}
