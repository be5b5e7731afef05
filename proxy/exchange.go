package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/traces"
)

// exchange is what the log line and the metrics say of one request. It belongs
// to the request's goroutine.
type exchange struct {
	id        string
	began     time.Time
	held      held        // of memory, for what was asked
	made      held        // and for what is answered
	output    int64       // bytes of that so far, as they count
	parts     []*exchange // of several choices
	route     string      // path of the route, or "other"
	key       string      // name of the API key
	limits    auth.Limits
	turns     int64 // let in by the limiter, which is owed the end
	settled   bool  // what it has used is counted
	model     string
	worker    string
	thread    string
	stream    bool
	status    int
	firstByte time.Time
	outcome   string // error code, or ok
	usage     *openai.Usage
	attempts  int               // turns begun
	acted     bool              // the model has called a tool
	items     []json.RawMessage // of the current turn's output
	queued    time.Duration     // waited for a place, in all attempts
	span      *traces.Span      // of the request
	turn      *traces.Span      // of the current turn

	request *appserver.TurnRequest // what runs again if its turn is lost; nil: nothing does
	starts  chan struct{}          // one choice begins at a time; nil: all at once
	lasts   int64                  // bytes of what is held of the request that it needs to the end

	suspect func() // reports that the worker has sent nothing for the current turn

	fit func(worker string, items []appserver.Item) []appserver.Item // of a history, what fits that worker; nil: all
}

// produced notes an item of the model's output. One that is more than words may
// have done something that must not be done twice.
func (x *exchange) produced(item appserver.ResponseItem) {
	x.acted = x.acted || item.Type != "message" && item.Type != "reasoning"
	x.items = append(x.items, item.Item)
}

// field is what a field of a request is called: in a chat, and in /v1/responses.
func (x *exchange) field(chat, responses string) string {
	if x.route == "/v1/responses" {
		return responses
	}
	return chat
}

// begun lets go of the request when something of the answer is out: its turn does
// not run again.
func (x *exchange) begun() {
	x.request = nil
	x.held.keep(x.lasts)
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	return r.Context().Value(exchangeKey{}).(*exchange)
}

const maxRequestID = 128

// identify gives every request its id: the client's own X-Request-Id if it is
// fit for a log line, else a new one.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{id: r.Header.Get("X-Request-Id"), began: time.Now(), route: "other", outcome: "ok"}
		if !validRequestID(x.id) {
			x.id = newID("req_")
		}
		w.Header().Set("X-Request-Id", x.id)
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

// newID makes an identifier that nobody can guess.
func newID(prefix string) string {
	var random [12]byte
	rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	return prefix + hex.EncodeToString(random[:])
}
