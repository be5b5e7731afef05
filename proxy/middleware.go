package proxy

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"codex-proxy/proxy/openai"
)

// apiHandler is a handler of an API route: an error it returns is written in
// the envelope if no byte of the answer has left.
type apiHandler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) api(h apiHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// admit applies the route's access class.
func (s *Server) admit(route route, r *http.Request, x *exchange) error {
	switch {
	case route.access == public:
		return nil
	case s.Keys.Open() && passedOn(r) != "":
		return notForwarded(passedOn(r))
	case s.Keys.Open() && misled(r):
		return forbidden()
	case s.Keys.Open() || route.access == operator && fromHere(r):
		return nil
	}
	key, ok := s.Keys.Check(r)
	if !ok && route.access == operator {
		return unauthorized("; without one, " + route.path + " is for this machine alone, by the name localhost and not through a reverse proxy")
	}
	if !ok && s.Keys.Empty() {
		return unauthorized("; there is none, so that nobody is let in until the operator makes one: codex-proxy keys add NAME")
	}
	if !ok {
		return unauthorized("")
	}
	x.key, x.limits = key.Name, key.Limits
	return nil
}

func forbidden() error {
	return &openai.Error{
		Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "host_not_allowed",
		Message: "without API keys this is for programs on this machine that ask for it by the name localhost: use http://localhost:PORT, or have the operator make a key with `codex-proxy keys add NAME`",
	}
}

// notForwarded refuses a request that a reverse proxy has passed on, as sign shows, or
// seems to have passed on.
func notForwarded(sign string) error {
	return &openai.Error{
		Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "forwarding_not_allowed",
		Message: "without API keys this is for programs on this machine that speak HTTP/1.1, and a request with " + sign +
			" may come from elsewhere through a reverse proxy: " +
			"have the operator make a key with `codex-proxy keys add NAME`, and send it",
	}
}

func unauthorized(hint string) error {
	return &openai.Error{
		Status: http.StatusUnauthorized, Type: openai.TypeAuthentication, Code: "invalid_api_key",
		Message: "send a valid API key as Authorization: Bearer KEY" + hint,
		Header:  http.Header{"Www-Authenticate": {"Bearer"}},
	}
}

// recover keeps a panic within its request. An answer that has begun is cut off,
// so that the client does not take it for a whole one.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			s.Logger.Error("panic in a request", "request_id", exchangeOf(r).id, "panic", p, "stack", string(debug.Stack()))
			begun := exchangeOf(r).status != 0
			s.fail(w, r, internalError(r))
			if begun {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// log writes one line a request when it has ended, and counts it.
func (s *Server) log(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r)
		defer s.account(r, x)
		next.ServeHTTP(&observedWriter{ResponseWriter: w, x: x, begun: func() { s.begin(w, x) }}, r)
	})
}

// begin is called when an answer is about to begin. A client that does not read
// it must not hold on to the connection for ever.
func (s *Server) begin(w http.ResponseWriter, x *exchange) {
	x.begun()
	s.showLimits(w.Header(), x)
	s.exits.show(w.Header())
	// Where this fails, nobody is at the other end: it is our own trip, or over.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.IdleTimeout))
}

// account is what remains of a request that has ended.
func (s *Server) account(r *http.Request, x *exchange) {
	x.held.keep(0)
	for _, part := range append(x.parts, x) {
		part.made.keep(0)
	}
	s.settle(x)
	s.metrics.observe(r.Method, x)
	x.endSpan(r)
	s.Logger.LogAttrs(r.Context(), levelOf(x), "request", attributes(r, x)...)
}

// levelOf keeps probes and scrapes out of the journal and lifts our own faults.
func levelOf(x *exchange) slog.Level {
	switch {
	case x.status == http.StatusInternalServerError:
		return slog.LevelError
	case x.status > http.StatusInternalServerError && x.model != "":
		return slog.LevelWarn
	case strings.HasPrefix(x.route, "/v1/"), x.route == "other":
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// attributes are the fields of the request line; of the content there is none.
func attributes(r *http.Request, x *exchange) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("request_id", x.id), slog.String("method", r.Method), slog.String("route", x.route),
		slog.Int("status", x.status), slog.String("outcome", x.outcome),
		slog.Float64("duration_ms", milliseconds(time.Since(x.began))),
	)
	for _, f := range []struct{ name, value string }{{"key", x.key}, {"model", x.model}, {"worker", x.worker}, {"thread_id", x.thread}, {"trace_id", x.span.TraceID()}} {
		if f.value != "" {
			attrs = append(attrs, slog.String(f.name, f.value))
		}
	}
	if x.model != "" {
		attrs = append(attrs, slog.Bool("stream", x.stream))
	}
	if x.model != "" && x.queued >= time.Millisecond {
		attrs = append(attrs, slog.Float64("queued_ms", milliseconds(x.queued)))
	}
	if x.attempts > 1 {
		attrs = append(attrs, slog.Int("attempts", x.attempts))
	}
	if !x.firstByte.IsZero() {
		attrs = append(attrs, slog.Float64("ttfb_ms", milliseconds(x.firstByte.Sub(x.began))))
	}
	if x.usage != nil {
		attrs = append(attrs, slog.Int64("input_tokens", x.usage.PromptTokens), slog.Int64("output_tokens", x.usage.CompletionTokens))
	}
	return attrs
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// observedWriter notes the status and the time of the first byte.
type observedWriter struct {
	http.ResponseWriter
	x     *exchange
	begun func() // called before the header is sent
}

// WriteHeader implements http.ResponseWriter.
func (w *observedWriter) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *observedWriter) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *observedWriter) begin(status int) {
	if w.x.status == 0 && status >= 200 {
		w.x.status, w.x.firstByte = status, time.Now()
		w.begun()
	}
}

// Unwrap lets http.ResponseController flush.
func (w *observedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
