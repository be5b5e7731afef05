package responses

import (
	"io"

	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/openai"
)

// sse sends events as server-sent events.
type sse struct{ *answer.Stream }

func (s sse) write(events []openai.ResponseEvent) error {
	return s.Write(func(w io.Writer) error {
		for _, e := range events {
			if err := openai.WriteResponseEvent(w, e); err != nil {
				return err
			}
		}
		return nil
	})
}
