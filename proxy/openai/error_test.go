package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestErrorEnvelope(t *testing.T) {
	data, err := json.Marshal(Unavailable("worker_not_ready", "wait", 0))
	require.NoError(t, err)
	assert.JSONEq(t,
		`{"error":{"message":"wait","type":"backend_unavailable","param":null,"code":"worker_not_ready",`+
			`"retryable":true}}`, string(data))
	data, err = json.Marshal(Invalid("c", "p", "m"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"error":{"message":"m","type":"invalid_request_error","param":"p","code":"c"}}`, string(data))
}
