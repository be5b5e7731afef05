package responses

import (
	"net/http"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/tokens"
)

// inputTokens serves POST /v1/responses/input_tokens: it plans the turn of a response, and counts the tokens of the
// model's input. It uses no worker.
func (e *Endpoint) inputTokens(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	x.Operation = proxy.CountTokens
	req, ctx, cancel, err := admission.Take(e.Admission, w, r, x, wire.DecodeInputTokens)
	if err != nil {
		return err
	}
	defer cancel()
	job, err := e.jobs.Find(ctx, x, req.Blank("", 0), req, nil, false)
	if err != nil {
		return err
	}
	defer e.jobs.Close(job)
	planned, err := plan.New(req, job.Conversation())
	if err != nil {
		return err
	}
	if err := x.Grant.Body.Add(ctx, tokens.Memory(&planned.Turn)); err != nil {
		return err
	}
	n, err := tokens.Turn(ctx, &planned.Turn)
	if err != nil {
		return cause.Of(ctx, err)
	}
	return e.Answers.JSON(w, wire.InputTokens{Object: "response.input_tokens", InputTokens: n})
}
