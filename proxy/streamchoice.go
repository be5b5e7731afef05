package proxy

import (
	"io"

	"codex-proxy/proxy/openai"
)

// streamChoice tells a choice in chunks.
type streamChoice struct {
	*stream
	answer openai.Answer
	choice *choice
	role   bool // the role chunk is out
	calls  int
	words  *openai.TextWriter
}

func (c *streamChoice) text(delta string) error {
	if c.words == nil {
		c.words = c.answer.TextWriter(c.choice.index)
		if err := c.say(true); err != nil {
			return err
		}
	}
	return c.write(func(w io.Writer) error { return c.words.WriteEvent(w, delta) })
}

func (c *streamChoice) reasoning(delta string) error {
	return c.say(true, c.answer.ReasoningChunk(c.choice.index, delta))
}

func (c *streamChoice) call(call openai.ToolCall) error {
	chunks := c.answer.CallChunks(c.choice.index, c.calls, call)
	c.calls++
	return c.say(false, chunks...)
}

func (c *streamChoice) end(finish, refusal string) error {
	last := c.answer.FinishChunk(c.choice.index, finish)
	if refusal != "" {
		return c.say(false, c.answer.RefusalChunk(c.choice.index, refusal), last)
	}
	return c.say(true, last)
}

func (c *streamChoice) keepalive() error {
	if err := c.write(openai.WriteKeepalive); err != nil {
		return err
	}
	return c.flush()
}

// say sends chunks, the one with the role before the first of them.
func (c *streamChoice) say(spoken bool, chunks ...openai.ChatChunk) error {
	if !c.role {
		c.role = true
		chunks = append([]openai.ChatChunk{c.answer.RoleChunk(c.choice.index, spoken)}, chunks...)
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

// write notes that something of the choice is out.
func (c *streamChoice) write(write func(io.Writer) error) error {
	c.choice.x.begun() // it may not be the request's own
	return c.stream.write(write)
}
