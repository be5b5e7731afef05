package messages

import (
	"cmp"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/openai/parameter"
	"codex-proxy/proxy/reasoning"
)

// plan is the turn of a request.
type plan struct {
	turn      appserver.TurnRequest
	reasoning reasoning.Owners
	images    int64 // bytes that codex needs to decode the images
}

// planTurn maps a request onto a turn. The system prompt becomes the thread's instructions, and
// each message the items of history that it is made of. Parameters without a setting of codex
// become instructions at the end, where the model weighs them most.
func planTurn(req *anthropic.MessageRequest) (*plan, error) {
	instructions := strings.Join(req.System, "\n\n")
	p := &plan{turn: appserver.TurnRequest{
		Model: req.Model, BaseInstructions: &instructions, Effort: req.Reasoning.Effort,
		Summary:      cmp.Or(req.Reasoning.Summary, parameter.NoSummary),
		OutputSchema: req.Format.Schema, Tools: admission.Tools(req.Tools), ServiceTier: req.ServiceTier,
	}}
	var err error
	if p.images, err = admission.Decoding(req.Images(), 1); err != nil {
		return nil, err
	}
	p.turn.Items = make([]history.Item, 0, len(req.Messages)+len(req.Instructions))
	for _, m := range req.Messages {
		p.add(m)
	}
	for _, text := range req.Instructions {
		p.turn.Items = append(p.turn.Items, history.TextMessage("developer", text))
	}
	return p, nil
}

// add adds a message. Codex drops "system" silently, so such a message becomes a developer
// message.
func (p *plan) add(m anthropic.MessageParam) {
	switch m.Role {
	case "assistant":
		for _, block := range m.Blocks {
			p.addOutput(block)
		}
	case "system":
		p.addInput("developer", m.Blocks)
	default:
		p.addInput(m.Role, m.Blocks)
	}
}

// addOutput adds a block that the model wrote. The model writes each block of text as a message.
func (p *plan) addOutput(block anthropic.BlockParam) {
	switch block.Type {
	case anthropic.BlockText:
		p.turn.Items = append(p.turn.Items, history.TextMessage("assistant", block.Text))
	case anthropic.BlockToolUse:
		name, arguments := block.Call.Wire()
		p.turn.Items = append(p.turn.Items, history.FunctionCall(block.Call.ID, name, arguments))
	case anthropic.BlockThinking:
		p.addThinking(block)
	}
}

// addThinking adds reasoning that has a signature of ours. The model could not read any other.
func (p *plan) addThinking(block anthropic.BlockParam) {
	origin, encrypted := reasoning.Split(block.Signature)
	if origin == "" || encrypted == "" {
		return
	}
	var summary []string
	if block.Text != "" {
		summary = []string{block.Text}
	}
	item := history.Reasoning(summary, encrypted)
	p.turn.Items = append(p.turn.Items, item)
	p.reasoning.Add(item, origin)
}

// addInput adds the blocks of the client: the results of tools, and the blocks between them as a message.
func (p *plan) addInput(role string, blocks []anthropic.BlockParam) {
	var contents []history.Content
	for _, block := range blocks {
		if block.Type != anthropic.BlockToolResult {
			part := media.Part{Text: block.Text, Image: block.Image}
			contents = admission.AppendContents(contents, []media.Part{part}, "input_text")
			continue
		}
		contents = p.addContents(role, contents)
		p.turn.Items = append(p.turn.Items, result(block))
	}
	p.addContents(role, contents)
}

// addContents adds a message of contents, unless it is empty. It returns the contents of the next one.
func (p *plan) addContents(role string, contents []history.Content) []history.Content {
	if len(contents) > 0 {
		p.turn.Items = append(p.turn.Items, history.Message(role, contents...))
	}
	return contents[:0]
}

// result is the result of a tool.
func result(block anthropic.BlockParam) history.Item {
	if len(block.Parts) == 1 && block.Parts[0].Image == nil {
		return history.FunctionCallOutput(block.CallID, block.Parts[0].Text)
	}
	return history.FunctionCallParts(block.CallID, admission.AppendContents(nil, block.Parts, "input_text")...)
}
