package responses

import (
	"net/http"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/tokens"
)

// inputTokens serves POST /v1/responses/input_tokens: it plans the turn of a response, and counts the tokens of the
// model's input. It uses no worker.
func (e *Endpoint) inputTokens(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	x.Operation = proxy.CountTokens
	req, ctx, cancel, err := intake.Take(e.Intake, w, r, x, e.Intake.Reading(x).InputTokens)
	if err != nil {
		return err
	}
	defer cancel()
	job, err := e.find(ctx, x, req.Blank("", 0), req, nil, false)
	if err != nil {
		return err
	}
	defer e.close(job)
	planned, err := planTurn(req, job.conversation())
	if err != nil {
		return err
	}
	if err := x.Grant.Body.Add(ctx, tokens.Memory(&planned.turn)); err != nil {
		return err
	}
	n, err := tokens.Turn(ctx, &planned.turn)
	if err != nil {
		return cause.Of(ctx, err)
	}
	return e.Answers.JSON(w, openai.InputTokens{Object: "response.input_tokens", InputTokens: n})
}
