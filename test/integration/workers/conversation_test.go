package workers

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/bench/line"
)

// A long conversation goes up once, and then only what is new of it, through the broker of a worker. A broker that is
// killed begins anew.
func TestLongConversation(t *testing.T) { bed.EitherSuite(t, testLongConversation) }

func testLongConversation(t *testing.T, suite string) {
	b := bed.New(t, suite, strings.Replace(providerWorker, "native", "plain", 1), bed.Patient)
	certificate, root := bed.Certify(t, providerHost)
	write(b, "/etc/ssl/provider.pem", string(root))
	write(b, "/etc/codex-proxy/key", providerKey+"\n")
	b.AppendTo("/etc/hosts", "127.0.0.1 "+providerHost+"\n")
	b.DropIn("codex-worker@.service", "key", "[Service]\nLoadCredential=key:/etc/codex-proxy/key\n")
	var mu sync.Mutex
	var seen []line.Request
	endpoint := line.New(line.Options{Asked: func(r line.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
	}})
	l, err := b.Listen("tcp", "127.0.0.1:"+providerPort)
	require.NoError(t, err)
	b.ServeTLSOn(l, certificate, endpoint)
	b.Start()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	messages := []message{{"user", strings.Repeat("word ", 20_000)}}
	ask := func() line.Request {
		body, err := json.Marshal(map[string]any{"model": bed.Model, "messages": messages})
		require.NoError(t, err)
		res, answer := b.AskThrough(t, http.MethodPost, bed.ChatPath, string(body))
		require.Equal(t, http.StatusOK, res.StatusCode, answer)
		assert.Contains(t, answer, line.Answer)
		messages = append(messages, message{"assistant", line.Answer}, message{"user", "And tomorrow?"})
		mu.Lock()
		defer mu.Unlock()
		return seen[len(seen)-1]
	}
	assert.False(t, ask().Socket)
	b.UntilMetric(`codex_model_sockets{worker="default"} 1`)
	second := ask()
	assert.True(t, second.Socket)
	assert.Greater(t, second.Size, 100_000)
	third := ask()
	assert.NotEmpty(t, third.Previous)
	assert.Less(t, third.Size, 50_000)
	assert.Len(t, third.Input, len(messages)-2)
	b.UntilMetric(`codex_model_continued_total{worker="default"} 1`)
	b.UntilMetric(`codex_model_tokens_total{kind="turn",type="input",worker="default"} 30`)
	b.Signal(b.OnlyProcess(brokerUnit), unix.SIGKILL)
	assert.False(t, ask().Socket)
}
