package responses

import (
	"cmp"
	"net/http"

	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/turn"
)

// compact serves POST /v1/responses/compact: one turn, in which the model writes a summary of the conversation. Nothing
// is stored.
func (e *Endpoint) compact(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	req, ctx, cancel, err := admission.Take(e.Admission, w, r, x, wire.DecodeCompact)
	if err != nil {
		return err
	}
	defer cancel()
	job, err := e.jobs.New(ctx, x, req, nil)
	if err != nil {
		return err
	}
	planned, err := plan.New(req, job.Conversation())
	if err != nil {
		return err
	}
	if err := x.Grant.Answer.Reserve(ctx, planned.Kept.Output(true)); err != nil {
		return err
	}
	output, err := planned.Kept.Encode()
	if err != nil {
		return err
	}
	s := &summary{Endpoint: e, w: w, x: x, req: req, blank: job.Blank, output: output}
	req.Input, planned.Kept = nil, plan.Retained{}
	x.Grant.Body.Shrink(planned.Turn.Footprint())
	return e.Turns.Run(ctx, turn.Request{
		ID: x.ID, Key: x.Key.Name, Arrived: x.Began, Name: x.Model,
		Turn: &planned.Turn, Decoding: planned.Images, Fit: planned.Reasoning.Fit(e.Turns),
		CacheKey: req.CacheKey(), Opening: job.Opening,
		Prefer:   cmp.Or(planned.Reasoning.Prefers(e.Turns.Pool.Names()), job.Prefer),
		Accounts: x.Accounts, WithoutHands: true, Span: x.Span, Report: &x.Turn,
	}, s)
}
