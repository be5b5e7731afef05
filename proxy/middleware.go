package proxy

import (
	"log/slog"
	"net/http"
	"time"
)

// dispatch finds the route of a request, applies its access class, and calls its handler.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r)
	r.URL.Path, x.PathModel = s.routes.canonical(r.URL.Path)
	cors(s.CORSOrigins, s.Keys, w.Header(), r)
	route, err := s.routes.find(r)
	x.Form = max(x.Form, route.Form)
	if err == nil {
		x.Route = route.Path
		if route.Access == Keyed { // probes and scrapes are not traced
			x.Span = s.Traces.Begin(r.Header, x.Began)
		}
		x.Key, err = access(s.Keys, route, r)
		x.Grant = s.Limiter.Grant(x.Key, s.Memory)
	}
	if err == nil && route.Access == Keyed {
		err = s.choose(r, x)
	}
	if err == nil {
		err = route.Handler(w, r, x)
	}
	if err != nil {
		s.envelope.write(w, x, err)
	}
}

// log accounts for every request when it has ended.
func (s *Server) log(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r)
		defer s.end(r, x)
		next.ServeHTTP(&observedWriter{ResponseWriter: w, x: x, begun: func() { s.begin(w, x) }}, r)
	})
}

// begin is called when an answer is about to begin. A client that does not read it must
// not keep the connection for ever.
func (s *Server) begin(w http.ResponseWriter, x *Exchange) {
	x.Form.markHeader(w.Header(), x)
	s.Connections.MarkHeader(w.Header())
	x.markAccount(w.Header())
	x.markSession(w.Header())
	// This fails only for the trip of the liveness probe, or after the connection.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.WriteTimeout))
}

// end settles a request, and writes its log line, metrics and span.
func (s *Server) end(r *http.Request, x *Exchange) {
	x.Grant.Release()
	x.Settle()
	s.metrics.observe(r.Method, x)
	endSpan(r.Method, x)
	s.Logger.LogAttrs(r.Context(), levelOf(x), "request", attributes(r.Method, x)...)
	s.ended(r.Method, x)
}

// ended reports an exchange that the journal has.
func (s *Server) ended(method string, x *Exchange) {
	if s.OnEnd != nil && levelOf(x) >= slog.LevelInfo {
		s.OnEnd(method, x)
	}
}

// observedWriter records the status and the time of the first byte.
type observedWriter struct {
	http.ResponseWriter
	x     *Exchange
	begun func() // called before the header is sent
}

// WriteHeader implements http.ResponseWriter.
func (w *observedWriter) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *observedWriter) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *observedWriter) begin(status int) {
	if w.x.Status == 0 && status >= 200 {
		w.x.Status, w.x.FirstByte = status, time.Now()
		w.begun()
	}
}

// Unwrap lets http.ResponseController flush.
func (w *observedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
