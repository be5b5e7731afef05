package messages

import (
	"testing"

	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/limits/limitstest"
)

func TestWorstBody(t *testing.T) {
	limitstest.WorstBody(t, (*limitstest.Genome).Message, func(body []byte) (made []any, footprint int64) {
		req, err := anthropic.DecodeMessage(body)
		if err != nil {
			return []any{err}, 0
		}
		planned, err := planTurn(req)
		if err != nil {
			return []any{err}, 0
		}
		planned.turn.Fingerprint()
		return []any{req, planned}, planned.turn.Footprint()
	})
}
