package api_test

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

// A socket brings the same events, from the beginning for each response.
func TestContractOnASocket(t *testing.T) {
	s := newSpeaker(t)
	k := s.Socket(t)
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
			k.Say(string(body))
			a, err := s.schema.ResponseStream(strings.NewReader(k.Stream()))
			require.NoError(t, err)
			assert.Equal(t, says.text(""), a.Text)
			assert.Equal(t, s.called(says, contract.Responses), a.Calls)
			assert.Equal(t, flat(says.reasoning), a.Reasoning)
		})
	}
}
