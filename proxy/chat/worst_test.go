package chat

import (
	"testing"

	"codex-proxy/proxy/chat/wire"
	completionwire "codex-proxy/proxy/completions/wire"
	"codex-proxy/proxy/limits/limitstest"
	"codex-proxy/proxy/openai/jsonbody"
)

func TestWorstBody(t *testing.T) {
	limitstest.WorstBody(t, (*limitstest.Genome).Chat, func(body []byte) (made []any, footprint int64) {
		req, err := wire.Decode(body, jsonbody.Reading{})
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
		req, err := completionwire.Decode(body, jsonbody.Reading{})
		if err != nil {
			return []any{err}, 0
		}
		turn := planTurn(&req.Request)
		turn.Fingerprint()
		return []any{req, turn}, turn.Footprint()
	})
}
