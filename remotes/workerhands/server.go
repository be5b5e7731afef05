package workerhands

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"codex-proxy/proxy/turn"
	"codex-proxy/remotes/hands"
)

const (
	// headBound bounds the arrival of a request, and mostBody its body, in bytes.
	headBound, mostBody = 10 * time.Second, 16 << 10
	// mostRelayed bounds the connections of codex at the same time: it has one for each session that it knows.
	mostRelayed = 256
)

// Server serves the daemon on one listener, and codex on another one.
type Server struct{ Sessions *Sessions }

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context, daemon, codex []net.Listener) error {
	control := http.NewServeMux()
	control.HandleFunc("POST "+alivePath, func(http.ResponseWriter, *http.Request) {})
	control.HandleFunc("POST "+enterPath, s.enter)
	control.HandleFunc("POST "+toldPath, func(w http.ResponseWriter, r *http.Request) {
		if q, is := read(w, r); is {
			note(s.Sessions, q)
		}
	})
	control.HandleFunc("POST "+changesPath, s.changes)
	control.HandleFunc("POST "+endPath, s.end)
	slots := make(chan struct{}, mostRelayed)
	relay := http.NewServeMux()
	relay.HandleFunc("GET /{run}", func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			s.relay(ctx, w, r)
		default:
			http.Error(w, "too many connections", http.StatusServiceUnavailable)
		}
	})
	return serveAll(ctx, control, daemon, relay, codex)
}

// Refuse answers the daemon with the words of a fault, and codex with none, until ctx ends.
func Refuse(ctx context.Context, words string, daemon, codex []net.Listener) error {
	fault := &turn.HandsError{Code: turn.HandsUnavailable, Words: words, Retry: retryFull}
	refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w, fault) })
	return serveAll(ctx, refusing, daemon, http.NotFoundHandler(), codex)
}

func serveAll(
	ctx context.Context, control http.Handler, daemon []net.Listener, relay http.Handler, codex []net.Listener,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving sync.WaitGroup
	errs := make(chan error, len(daemon)+len(codex))
	serve := func(l net.Listener, handler http.Handler) {
		server := &http.Server{ReadHeaderTimeout: headBound, Handler: handler,
			BaseContext: func(net.Listener) context.Context { return ctx },
			ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, 0)}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		serving.Go(func() {
			defer stop()
			errs <- server.Serve(l)
		})
	}
	for _, l := range daemon {
		serve(l, control)
	}
	for _, l := range codex {
		serve(l, relay)
	}
	err := <-errs
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	serving.Wait()
	return err
}

// enter answers with a place as soon as the session serves. The turn has the session until the connection closes.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	q, is := read(w, r)
	if !is {
		return
	}
	one, leave, err := s.Sessions.enter(r.Context(), q, false)
	if err != nil {
		refuse(w, err)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "application/json")
	err = json.NewEncoder(w).Encode(placeOf(s.Sessions, one))
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err == nil {
		<-r.Context().Done()
	}
}

// changes answers with the patch of a session that is there.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	q, is := read(w, r)
	if !is {
		return
	}
	one, leave, err := s.Sessions.enter(r.Context(), q, true)
	if err != nil {
		refuse(w, err)
		return
	}
	defer leave()
	patch, err := s.Sessions.changesOf(r.Context(), one)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/x-diff")
	_, _ = w.Write(patch)
}

// end ends a session that is there.
func (s *Server) end(w http.ResponseWriter, r *http.Request) {
	if q, is := read(w, r); is {
		if err := s.Sessions.endNow(r.Context(), q); err != nil {
			refuse(w, err)
		}
	}
}

func read(w http.ResponseWriter, r *http.Request) (q question, is bool) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err == nil && q.Name == "" {
		err = errors.New("the session has no name")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return q, err == nil
}

func refuse(w http.ResponseWriter, err error) {
	answer := refusal{Code: turn.HandsUnavailable, Words: err.Error(), Retry: retryFull}
	var known *turn.HandsError
	if errors.As(err, &known) {
		answer = refusal{Code: known.Code, Words: known.Words, Retry: known.Retry}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status(answer.Code))
	_ = json.NewEncoder(w).Encode(answer) // the daemon may have gone
}

// relay connects codex with the exec-server that it knows by an address.
func (s *Server) relay(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	one, token := s.Sessions.atRun(r.PathValue("run"))
	if one == nil || !hands.HasToken(r, token) {
		http.Error(w, "no session has this address and token", http.StatusNotFound)
		return
	}
	h, err := s.Sessions.serving(r.Context(), one)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	(&hands.Relay{Hands: h, Token: token}).Connect(ctx, w, r)
}
