package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// otherForms sends requests in the forms of clients that do not keep to OpenAI's, and one that runs no turn.
func otherForms(b *bed.Bed, t *testing.T) {
	t.Helper()
	before := len(b.Models.Turns())
	var coded bytes.Buffer
	w, err := zstd.NewWriter(&coded)
	require.NoError(t, err)
	_, err = io.WriteString(w, "\xef\xbb\xbf"+`{"n":1.0,"messages":[{"role":"user","content":"hi [[text of Azure]]"}]}`)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	answer := sendForm(b, t, "/openai/deployments/"+bed.Model+"/chat/completions/?api-version=2024-10-21", &coded, "zstd")
	assert.Contains(t, answer, `"content":"of Azure"`)

	answer = sendForm(b, t, bed.ChatPath, strings.NewReader(`{"model":"`+bed.Model+`","stream":true,"input":[{"role":"system","content":
		"You help."},{"role":"user","content":"hi [[text for Cursor]]"}],"tools":[{"type":"function","name":"f","parameters":
		{"type":"object","properties":{}},"strict":false}],"tool_choice":"auto","reasoning":{"effort":"medium","summary":"auto"},
		"include":["reasoning.encrypted_content"],"store":false}`), "")
	assert.Contains(t, answer, `"object":"chat.completion.chunk"`)
	assert.True(t, strings.HasSuffix(answer, "data: [DONE]\n\n"), answer)
	require.Len(t, b.Models.Turns(), before+2)

	answer = sendForm(b, t, bed.ResponsesPath, strings.NewReader(`{"model":"`+bed.Model+`","input":"warm [[text generated anyway]]",
		"prompt_cache_options":{"prewarm":true}}`), "")
	assert.Contains(t, answer, `"output":[]`)
	assert.Len(t, b.Models.Turns(), before+2, "no turn ran")
}

// sendForm posts a body, and returns the answer.
func sendForm(b *bed.Bed, t *testing.T, path string, body io.Reader, coding string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, bed.Base+path, body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", coding)
	res, err := b.HTTP.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(answer))
	return string(answer)
}
