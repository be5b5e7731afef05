package bed

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// OpenAIModel is a model that codex lists by itself.
const OpenAIModel = "gpt-5.5"

// AskOpenAI runs a turn that must succeed.
func AskOpenAI(b *Bed) {
	b.T.Helper()
	status, body, err := TryOpenAI(b)
	require.NoError(b.T, err)
	require.Equal(b.T, http.StatusOK, status, body)
}

// TryOpenAI runs a turn, and returns the status and the body of its answer.
func TryOpenAI(b *Bed) (int, string, error) {
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, Base+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+OpenAIModel+`","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.HTTP.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}
