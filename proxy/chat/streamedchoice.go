package chat

import (
	"context"
	"io"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// streamedChoice is the sink of a choice that is sent in chunks, as they arrive. Nothing is sent before the model's
// first output or the first keepalive, so that a failure until then is a real HTTP status.
type streamedChoice struct {
	choice
	opened bool // the first chunk is out
	sent   int  // calls
	words  *openai.TextWriter
}

// Begin implements turn.Sink.
func (c *streamedChoice) Begin(a *turn.Attempt) {
	c.start(a)
	c.opened, c.sent, c.words = false, 0, nil
	if c.req.N > 1 {
		c.stream.CountAttempt()
	}
}

// Text implements turn.Sink.
func (c *streamedChoice) Text(message, delta string) error {
	text, end := c.text(message, delta)
	if text == "" && delta != "" { // it is held back
		return end
	}
	if err := c.writeText(text); err != nil {
		return err
	}
	return end
}

func (c *streamedChoice) writeText(text string) error {
	if c.words == nil {
		c.words = c.form.TextWriter(c.index)
		if err := c.send(true); err != nil {
			return err
		}
	}
	return c.write(func(w io.Writer) error { return c.words.WriteEvent(w, text) })
}

// Reasoning implements turn.Sink.
func (c *streamedChoice) Reasoning(item string, part int, delta string) error {
	return c.send(true, c.form.Reasoning(c.index, c.separateParts(item, part, delta))...)
}

// Item implements turn.Sink.
func (c *streamedChoice) Item(item appserver.ResponseItem) error {
	call, ok := c.callOf(item)
	if !ok {
		return nil
	}
	chunks := c.form.Call(c.index, c.sent, call)
	c.sent++
	return c.send(false, chunks...)
}

// Flush implements turn.Sink.
func (c *streamedChoice) Flush() error { return c.stream.Flush() }

// Silence implements turn.Sink. A comment is no output: the turn can still run again.
func (c *streamedChoice) Silence() error { return c.stream.Keepalive() }

// Finish implements turn.Sink.
func (c *streamedChoice) Finish(_ context.Context, f turn.Finish) error {
	if rest := c.stop.Rest(); rest != "" {
		if err := c.writeText(rest); err != nil {
			return err
		}
	}
	finish, refusal := c.end(f)
	if err := c.send(refusal == "", c.form.Ending(c.index, finish, refusal)...); err != nil {
		return err
	}
	if c.req.N > 1 { // the end of the answer may be much later
		return c.stream.Flush()
	}
	return c.ended()
}

// send sends chunks, and before the first of them the opening of the choice. content
// states that the choice has content.
func (c *streamedChoice) send(content bool, chunks ...any) error {
	if !c.opened {
		c.opened = true
		chunks = append(c.form.Opening(c.index, content), chunks...)
	}
	return c.write(func(w io.Writer) error {
		for _, chunk := range chunks {
			if err := openai.WriteEvent(w, chunk); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *streamedChoice) write(write func(io.Writer) error) error {
	c.commit()
	return c.stream.Write(write)
}
