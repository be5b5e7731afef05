// Package answer writes answers to clients: whole ones and streams of server-sent events.
// It bounds each write, so that a client that does not read is cut off.
package answer

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// Slice is how many bytes are written to a client at a time. The client must take each
// within the timeout.
const Slice = 64 << 10

// Writer writes answers. It is safe for concurrent use.
type Writer struct {
	timeout time.Duration
	streams prometheus.Gauge
}

// New creates a writer that cuts off a client when it takes nothing for the timeout.
func New(timeout time.Duration, registry prometheus.Registerer) *Writer {
	return &Writer{timeout: timeout, streams: promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "codex_streams_active", Help: "Streamed answers in progress.",
	})}
}

// CountStream counts a streamed answer until ended is called.
func (a *Writer) CountStream() (ended func()) {
	a.streams.Inc()
	return a.streams.Dec
}

// JSON sends a whole answer and flushes it, so that nothing that follows in the handler
// delays the client.
func (a *Writer) JSON(w http.ResponseWriter, v any) error {
	data, err := openai.Encode(v)
	if err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if err := a.Write(w, data); err != nil {
		return err
	}
	if http.NewResponseController(w).Flush() != nil {
		return turn.ErrClientGone
	}
	return nil
}

// Write writes b. It returns turn.ErrClientGone if the client does not take it.
func (a *Writer) Write(w http.ResponseWriter, b []byte) error {
	control := http.NewResponseController(w)
	for len(b) > 0 {
		part := b[:min(Slice, len(b))]
		// If this fails, the connection has ended already.
		_ = control.SetWriteDeadline(time.Now().Add(a.timeout))
		if _, err := w.Write(part); err != nil {
			return turn.ErrClientGone
		}
		b = b[len(part):]
	}
	return nil
}

// Usage is codex's usage in OpenAI's form; nil for nil.
func Usage(u *appserver.Usage) *openai.Usage {
	if u == nil {
		return nil
	}
	return &openai.Usage{
		PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens,
		PromptTokensDetails:     openai.PromptDetails{CachedTokens: u.CachedInputTokens},
		CompletionTokensDetails: openai.CompletionDetails{ReasoningTokens: u.ReasoningOutputTokens},
	}
}

// Finish is OpenAI's finish_reason for the end of a turn.
func Finish(f turn.Finish) string {
	switch f {
	case turn.ToolCalls:
		return openai.FinishToolCalls
	case turn.Length:
		return openai.FinishLength
	case turn.ContentFilter:
		return openai.FinishContentFilter
	default:
		return openai.FinishStop
	}
}

// Withheld is the refusal in place of words that codex withheld: codex 0.169 drops a
// message that holds a refusal, deltas and all, and completes the turn.
const Withheld = "The model has not given an answer, which most likely is a refusal; " +
	"codex does not pass on the words of one."

// Wrote reports whether the model wrote more than its reasoning.
func Wrote(u *appserver.Usage) bool { return u != nil && u.OutputTokens > u.ReasoningOutputTokens }
