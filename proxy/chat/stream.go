package chat

import (
	"context"
	"io"

	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/openai"
)

// streamed answers in server-sent events as the turns go on. An error after the first
// event is an event, too; [DONE] never follows it. A client that has gone gets no error: a
// client that only shut down its sending side would read it.
func (c *completion) streamed(ctx context.Context, keepalive bool) error {
	defer c.Answers.CountStream()()
	c.stream, c.keepalive = c.Answers.Stream(c.w), keepalive
	err := c.run(ctx)
	if err == nil || !c.stream.Begun() || proxy.ClientGone(err) {
		return err
	}
	_ = c.stream.Send(func(w io.Writer) error { return openai.WriteEvent(w, c.Server.Error(c.x, err)) })
	return err
}

// finishStream sends the usage, if the client wants it, and the end of the stream.
func (c *completion) finishStream() error {
	return c.stream.Send(func(w io.Writer) error {
		if usage := answer.Usage(c.x.Turn.Usage); c.req.IncludeUsage && usage != nil {
			if err := openai.WriteEvent(w, c.form.Usage(usage)); err != nil {
				return err
			}
		}
		return openai.WriteDone(w)
	})
}
