package chat

import (
	"testing"

	"codex-proxy/proxy/limits/limitstest"
	"codex-proxy/proxy/openai"
)

func TestWorstBody(t *testing.T) {
	limitstest.WorstBody(t, (*limitstest.Genome).Chat, func(body []byte) (made []any, footprint int64) {
		req, err := openai.DecodeChat(body)
		if err != nil {
			return []any{err}, 0
		}
		turn := planTurn(req)
		turn.Fingerprint()
		return []any{req, turn}, turn.Footprint()
	})
}

func TestWorstBodyOfACompletion(t *testing.T) {
	limitstest.WorstBody(t, (*limitstest.Genome).Completion, func(body []byte) (made []any, footprint int64) {
		req, err := openai.DecodeCompletion(body)
		if err != nil {
			return []any{err}, 0
		}
		turn := planTurn(&req.ChatRequest)
		turn.Fingerprint()
		return []any{req, turn}, turn.Footprint()
	})
}
