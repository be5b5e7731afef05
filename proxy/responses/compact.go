package responses

import (
	"cmp"
	"net/http"

	"codex-proxy/codex/history"
	"codex-proxy/proxy"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// toSummarise asks the model for the summary, after the conversation.
const toSummarise = `The conversation above is about to be compacted: a summary of yours takes its place, and the work ` +
	`goes on from the summary alone. Only the messages of the user are kept beside it.

Write that summary now. Do not go on with the work, do not answer the user, and call no tools. Write down what is needed ` +
	`to continue without a gap:
- what the user wants, with every constraint and preference that still holds
- what was done and found out, with decisions and their reasons
- exact names that are still needed: files, commands, identifiers, values, errors, results of tools
- the state of the work, what is open, and the next step

Leave out what no longer matters. Write the summary alone, without a greeting or a remark about it.`

// compact serves POST /v1/responses/compact: one turn, in which the model writes a summary of the conversation. Nothing
// is stored.
func (e *Endpoint) compact(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	req, ctx, cancel, err := intake.Take(e.Intake, w, r, x, e.Intake.Reading(x).Compact)
	if err != nil {
		return err
	}
	defer cancel()
	job, err := e.newJob(ctx, x, req, nil)
	if err != nil {
		return err
	}
	planned, err := planTurn(req, job.conversation())
	if err != nil {
		return err
	}
	if err := x.Grant.Answer.Reserve(ctx, planned.kept.output(true)); err != nil {
		return err
	}
	output, err := planned.kept.encode()
	if err != nil {
		return err
	}
	s := &summary{Endpoint: e, w: w, x: x, req: req, blank: job.blank, output: output}
	req.Input, planned.kept = nil, retained{}
	x.Grant.Body.Shrink(planned.turn.Footprint())
	return e.Turns.Run(ctx, turn.Request{
		ID: x.ID, Key: x.Key.Name, Arrived: x.Began, Name: x.Model,
		Turn: &planned.turn, Decoding: planned.images, Fit: planned.reasoning.Fit(e.Turns),
		CacheKey: req.CacheKey(), Opening: job.opening,
		Prefer:   cmp.Or(planned.reasoning.Prefers(e.Turns.Pool.Names()), job.prefer),
		Accounts: x.Accounts, Span: x.Span, Report: &x.Turn,
	}, s)
}

// compact makes the turn compact the conversation.
func (p *plan) compact(req *openai.ResponseRequest, conversation []item) (err error) {
	if p.kept, err = retain(conversation); err != nil {
		return err
	}
	if p.kept.stood > maxStood {
		return openai.TooLarge("input", "the developer messages are too long for a compaction; send fewer of them")
	}
	req.Compaction.Standing = p.kept.standing
	p.summarise()
	return nil
}

// summarise asks for a summary of the planned conversation. The model cannot call tools.
func (p *plan) summarise() {
	p.turn.Tools, p.turn.OutputSchema, p.turn.Summary = nil, nil, "none"
	p.turn.Items = append(p.turn.Items, history.TextMessage("developer", toSummarise))
}
