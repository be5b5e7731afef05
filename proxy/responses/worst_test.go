package responses

import (
	"testing"

	"codex-proxy/proxy"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/limits/limitstest"
	"codex-proxy/proxy/openai"
)

func TestWorstBody(t *testing.T) {
	e := New(Settings{Intake: intake.New(intake.Settings{})})
	limitstest.WorstBody(t, (*limitstest.Genome).Response, func(body []byte) (made []any, footprint int64) {
		req, err := openai.DecodeResponse(body)
		if err != nil {
			return []any{err}, 0
		}
		job, err := e.newJob(t.Context(), &proxy.Exchange{}, req, nil)
		if err != nil {
			return []any{req, err}, 0
		}
		plan, err := planTurn(req, job.conversation())
		if err != nil {
			return []any{job, err}, 0
		}
		plan.turn.Fingerprint()
		return []any{job, plan}, plan.turn.Footprint()
	})
}
