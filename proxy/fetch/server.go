package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/internal/ondemand"
)

const (
	// answerMargin bounds the transfer of an answer: the daemon is on the same machine.
	answerMargin = 5 * time.Second
	requestLimit = 4 * urlLimit // bytes; JSON may escape one byte as six
)

// request is the body of POST /fetch.
type request struct {
	URL string `json:"url"`
}

// Server serves the daemon. Create it with NewServer.
type Server struct {
	fetcher *Fetcher
	http    *ondemand.Server
}

// NewServer builds a server that ends after a time without a connection, unused. It serves more routes, too; their
// answers may take as long as an image, unless they set a deadline.
func NewServer(fetcher *Fetcher, unused time.Duration, more map[string]http.Handler, logger *slog.Logger) *Server {
	s := &Server{fetcher: fetcher}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fetch", s.fetch)
	for route, handler := range more {
		mux.Handle(route, handler)
	}
	s.http = ondemand.NewServer(mux, fetcher.limits.Time+answerMargin, unused, logger)
	return s
}

// Run accepts until ctx ends or the server is unused, and finishes the requests it has
// accepted; then it returns nil.
func (s *Server) Run(ctx context.Context, l net.Listener) error { return s.http.Run(ctx, l) }

// fetch serves POST /fetch.
func (s *Server) fetch(w http.ResponseWriter, r *http.Request) {
	var body request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestLimit)).Decode(&body); err != nil {
		refuse(w, wrong(CodeURL, "the URL is too long, or the request is not JSON"))
		return
	}
	image, err := s.fetcher.Fetch(r.Context(), body.URL)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", image.Type)
	w.Header().Set("Content-Length", strconv.Itoa(len(image.Data)))
	_, _ = w.Write(image.Data) // an error means that the daemon has ended
}

func refuse(w http.ResponseWriter, err error) {
	known := wrong(codeOverloaded, "the daemon has gone")
	errors.As(err, &known)
	status := http.StatusBadRequest
	if known.Code == codeOverloaded {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(known)
}
