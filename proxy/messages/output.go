package messages

import (
	"context"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/stopsequence"
	"codex-proxy/proxy/turn"
)

// Text implements turn.Sink. Each message of the model is a block, and ends at the first stop
// sequence.
func (m *message) Text(item, delta string) error {
	if m.item != item {
		if err := m.endText(); err != nil {
			return err
		}
		m.item, m.stop = item, stopsequence.New(m.req.Stop)
	}
	text, cut := m.stop.Write(delta)
	if text != "" {
		if err := m.send(m.builder.Text(item, text)); err != nil {
			return err
		}
	}
	if cut {
		return turn.ErrEnough
	}
	return nil
}

// endText sends the end of a message's text, which might have been the beginning of a stop
// sequence.
func (m *message) endText() error {
	rest := m.stop.Rest()
	if rest == "" {
		return nil
	}
	return m.send(m.builder.Text(m.item, rest))
}

// Reasoning implements turn.Sink.
func (m *message) Reasoning(item string, part int, delta string) error {
	if err := m.endText(); err != nil {
		return err
	}
	return m.send(m.builder.Thinking(item, part, delta))
}

// Item implements turn.Sink. The end of a text that is held back stays so until a block follows
// it: if all of the text is held back, the turn can still run again.
func (m *message) Item(item appserver.ResponseItem) error {
	if item.Type == "function_call" || item.Type == "reasoning" && m.req.Thinking {
		if err := m.endText(); err != nil {
			return err
		}
	}
	return m.send(m.builder.Item(item.Item))
}

// Finish implements turn.Sink.
func (m *message) Finish(_ context.Context, f turn.Finish) error {
	if err := m.endText(); err != nil {
		return err
	}
	events := m.builder.End(m.stopOf(f), answer.Usage(m.x.Turn.Usage))
	m.x.Settle()
	if m.stream == nil {
		m.commit()
		return m.Answers.JSON(m.w, m.builder.Message())
	}
	if err := m.send(events); err != nil {
		return err
	}
	return m.stream.Flush()
}

// stopOf is why the message ends. Codex withholds the words of a refusal; without this reason
// such a message would look like an empty one.
func (m *message) stopOf(f turn.Finish) anthropic.Stop {
	switch {
	case f == turn.ToolCalls, f == turn.Enough && m.builder.Calls() > 0:
		return anthropic.Stop{Reason: anthropic.StopToolUse} // calls before a stop sequence wait for their results
	case f == turn.Enough:
		return anthropic.Stop{Reason: anthropic.StopSequence, Sequence: m.stop.Met()}
	case f == turn.Length:
		return anthropic.Stop{Reason: anthropic.StopMaxTokens}
	case f == turn.ContentFilter:
		return anthropic.Stop{Reason: anthropic.StopRefusal}
	case !m.builder.Wrote() && answer.Wrote(m.x.Turn.Usage):
		return anthropic.Stop{Reason: anthropic.StopRefusal, Explanation: answer.Withheld}
	}
	return anthropic.Stop{Reason: anthropic.StopEndTurn}
}
