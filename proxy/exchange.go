package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/traces"
	"codex-proxy/proxy/turn"
	"codex-proxy/proxy/usage"
)

// Exchange is one request and its answer. It belongs to the request's goroutine.
type Exchange struct {
	Record
	Key   auth.Key     // the zero value without keys
	Grant limits.Grant // its use of memory and of its key's limits
	// Accounts are the only ones that may serve the request; nil: all may.
	Accounts []string
	// Session is the session of hands that the client names; empty: none.
	Session string

	// Form is the form of the answer's errors.
	Form Form
	// PathModel is the model that the path of the request names; empty: none.
	PathModel string
	// HistoryField is the name of the conversation in the request, for errors.
	HistoryField string

	choosing bool // the client may choose the account, and is shown it
	hides404 bool // the client does not show the message of a 404
}

// Record is the source of the log line, the metrics and the span of a request.
type Record struct {
	ID        string
	Began     time.Time
	Route     string // path of the route, or "other"
	Model     string // as the client wrote it; empty: the request names none
	Counted   string // name of the model in usage; empty: Model
	Stream    bool
	Status    int // 0: nothing of the answer has left
	FirstByte time.Time
	Outcome   string      // error code, or ok
	Response  string      // id of the background response that the exchange makes; empty: none
	Detail    string      // codex's text of a failed turn, for the journal alone
	Turn      turn.Report // all turns together
	// Operation is the operation of a request of a model, in the words of OpenTelemetry or its own; empty: chat.
	Operation string
	// Conversation is the conversation of the request, if it names one that is kept.
	Conversation string
	Span         *traces.Span
}

// Settle counts the use by the exchange; see limits.Grant.Settle.
func (x *Exchange) Settle() {
	x.Grant.Settle(cmp.Or(x.Counted, x.Model), x.shares(), x.Turn.Threads()...)
}

// counts are the use of all accounts together.
func (x *Exchange) counts() usage.Counts { return usage.Total(x.shares()) }

// shares are empty before a worker accepted the request: until then the name of the model
// may be any. The request counts for its first account, tokens for each.
func (x *Exchange) shares() []usage.Share {
	if x.Turn.Attempts == 0 {
		return nil
	}
	shares := []usage.Share{{Account: x.Turn.Worker, Counts: usage.Counts{Requests: 1}}}
	parts := x.Turn.Parts
	if len(parts) == 0 { // one turn
		parts = []turn.Part{{Worker: x.Turn.Worker, Usage: x.Turn.Usage}}
	}
	for _, part := range parts {
		if u := part.Usage; u != nil {
			shares = append(shares, usage.Share{Account: part.Worker, Counts: usage.Counts{
				InputTokens: u.InputTokens, CachedTokens: u.CachedInputTokens,
				OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningOutputTokens,
			}})
		}
	}
	return shares
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *Exchange { return r.Context().Value(exchangeKey{}).(*Exchange) }

const maxRequestID = 128

// identify gives every request its id: the client's own X-Request-Id if it is fit for a
// log line, else a new one.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &Exchange{Form: formOf(r), hides404: hides404(r), Record: Record{
			ID: r.Header.Get("X-Request-Id"), Began: time.Now(), Route: "other", Outcome: "ok",
		}}
		if !validRequestID(x.ID) {
			x.ID = NewID("req_")
		}
		w.Header().Set("X-Request-Id", x.ID)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

func validRequestID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}

// NewID creates an identifier that cannot be guessed.
func NewID(prefix string) string {
	var random [12]byte
	rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	return prefix + hex.EncodeToString(random[:])
}
