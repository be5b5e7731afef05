package messages

import (
	"net/http"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/tokens"
)

// count serves POST /v1/messages/count_tokens: it plans the turn of a message, and counts the tokens of the model's
// input. It uses no worker.
func (e *Endpoint) count(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	x.Operation = proxy.CountTokens
	req, ctx, cancel, err := admission.Take(e.Admission, w, r, x, decoder(anthropic.DecodeCount))
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.Admission.Inline(ctx, x, req.Images()); err != nil {
		return err
	}
	planned, err := planTurn(req)
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
	return e.Answers.JSON(w, anthropic.TokenCount{InputTokens: n})
}
