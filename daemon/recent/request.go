package recent

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/proxy"
)

// Request is one request that has ended. Its fields have the names of its line in the journal, and no content.
type Request struct {
	// Number counts the requests of this process.
	Number   uint64    `json:"number"`
	At       time.Time `json:"at"` // of its end
	ID       string    `json:"request_id"`
	Response string    `json:"response_id,omitempty"` // of a background response
	Method   string    `json:"method"`
	Route    string    `json:"route"`
	Status   int       `json:"status"` // 0: no answer was sent
	Outcome  string    `json:"outcome"`
	Key      string    `json:"key,omitempty"`
	Model    string    `json:"model,omitempty"`
	Worker   string    `json:"worker,omitempty"`
	Thread   string    `json:"thread_id,omitempty"`
	Trace    string    `json:"trace_id,omitempty"`
	Stream   bool      `json:"stream,omitempty"`
	// Outside means that the request has no key and was refused before anything else. The last 50 are kept.
	Outside    bool    `json:"outside,omitempty"`
	Attempts   int     `json:"attempts,omitempty"`
	DurationMS float64 `json:"duration_ms"`
	QueuedMS   float64 `json:"queued_ms,omitempty"`
	TTFBMS     float64 `json:"ttfb_ms,omitempty"`
	// FirstTextMS is the time to the first text of the model.
	FirstTextMS  float64 `json:"first_text_ms,omitempty"`
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
}

// maxWord bounds the words that a client chooses, in bytes.
const maxWord = 128

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodOptions}

// RequestOf describes an exchange that ends now.
func RequestOf(method string, x *proxy.Exchange) Request {
	now := time.Now()
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return milliseconds(t.Sub(x.Began))
	}
	if !slices.Contains(methods, method) {
		method = "other"
	}
	r := Request{
		At: now, ID: x.ID, Response: x.Response, Method: method, Route: x.Route, Status: x.Status, Outcome: x.Outcome,
		Key: x.Key.Name, Model: word(x.Model), Worker: x.Turn.Worker, Thread: x.Turn.Thread, Trace: x.Span.TraceID(),
		Stream: x.Stream, Attempts: x.Turn.Attempts, DurationMS: since(now), QueuedMS: milliseconds(x.Turn.Queued),
		TTFBMS: since(x.FirstByte), FirstTextMS: since(x.Turn.FirstText),
	}
	if u := x.Turn.Usage; u != nil {
		r.InputTokens, r.OutputTokens = u.InputTokens, u.OutputTokens
	}
	r.Outside = r.Key == "" && slices.Contains(outside, r.Status)
	return r
}

// outside are the statuses of requests that were not let in, or asked for nothing that there is.
var outside = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}

// word is a text of bounded length that is safe to show.
func word(text string) string {
	text = listing.Printable(text)
	if len(text) <= maxWord {
		return text
	}
	return strings.ToValidUTF8(text[:maxWord], "") + "…"
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Failed reports whether the request has ended in an error.
func (r Request) Failed() bool { return r.Outcome != "ok" }
