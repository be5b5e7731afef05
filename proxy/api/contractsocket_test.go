package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/contract"
)

// stream hears one response to its end, and writes it as the event stream that
// it would be without the socket.
func (k *socket) stream() string {
	k.t.Helper()
	var b strings.Builder
	for {
		_, data, err := k.Read(k.t.Context())
		require.NoError(k.t, err)
		kind := read[seen](k.t, string(data)).Type
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, data)
		if kind == "response.completed" {
			return b.String()
		}
	}
}

// A socket brings the same events, from the beginning for each response.
func TestContractOnASocket(t *testing.T) {
	s := newSpeaker(t)
	k := s.socket(t)
	tools := offered(5)
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			says := randomSaying(rand.New(rand.NewPCG(seed, 1)), tools)
			s.mu.Lock()
			s.says = says
			s.mu.Unlock()
			body, err := contract.Responses.Body(contract.Question{Model: "demo", Prompt: "hello", Tools: tools,
				Reasoning: true})
			require.NoError(t, err)
			var request map[string]any
			require.NoError(t, json.Unmarshal(body, &request))
			request["type"] = "response.create"
			delete(request, "stream")
			body, err = json.Marshal(request)
			require.NoError(t, err)
			k.say(string(body))
			a, err := s.schema.ResponseStream(strings.NewReader(k.stream()))
			require.NoError(t, err)
			assert.Equal(t, says.text(""), a.Text)
			assert.Equal(t, s.called(says, contract.Responses), a.Calls)
			assert.Equal(t, flat(says.reasoning), a.Reasoning)
		})
	}
}
