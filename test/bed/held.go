package bed

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/modelserver"
)

// Held is a stream whose end a gate of the model server holds back.
type Held struct {
	gate string
	res  *http.Response
	body *bufio.Reader
	head string
}

// Hold opens a stream and returns after its first text. The stream may take two minutes,
// or the given time.
func Hold(b *Bed, gate string, within ...time.Duration) *Held {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), append(within, 2*Bound)[0])
	b.T.Cleanup(cancel)
	res, err := NewClient(b).Do(ChatRequest(ctx, true, "[[text first]][[gate "+gate+"]][[text  and last]]")) //nolint:bodyclose // the test closes it at its end
	require.NoError(b.T, err)
	h := &Held{gate: gate, res: res, body: bufio.NewReader(res.Body)}
	for !strings.Contains(h.head, "first") {
		line, err := h.body.ReadString('\n')
		require.NoError(b.T, err, h.head)
		h.head += line
	}
	_, err = b.Models.Wait(ctx, modelserver.AtGate(gate, 1))
	require.NoError(b.T, err)
	return h
}

// Rest is the rest of the stream.
func (h *Held) Rest(t *testing.T) string {
	t.Helper()
	rest, err := io.ReadAll(h.body)
	assert.NoError(t, err)
	assert.NoError(t, h.res.Body.Close())
	return string(rest)
}

// Finish opens the gate and asserts that the stream is complete.
func (h *Held) Finish(b *Bed) {
	b.T.Helper()
	b.Models.Release(h.gate)
	rest := h.Rest(b.T)
	assert.Contains(b.T, rest, " and last")
	assert.Contains(b.T, rest, `"finish_reason":"stop"`)
	assert.Contains(b.T, rest, "[DONE]")
}
