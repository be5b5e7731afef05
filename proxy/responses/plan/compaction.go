package plan

import (
	"codex-proxy/codex/history"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
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

// compact makes the turn compact the conversation.
func (p *Plan) compact(req *wire.Request, conversation []Item) (err error) {
	if p.Kept, err = retain(conversation); err != nil {
		return err
	}
	if p.Kept.stood > maxStood {
		return openai.TooLarge("input", "the developer messages are too long for a compaction; send fewer of them")
	}
	req.Compaction.Standing = p.Kept.standing
	p.summarise()
	return nil
}

// summarise asks for a summary of the planned conversation. The model cannot call tools.
func (p *Plan) summarise() {
	p.Turn.Tools, p.Turn.OutputSchema, p.Turn.Summary = nil, nil, "none"
	p.Turn.Items = append(p.Turn.Items, history.TextMessage("developer", toSummarise))
}
