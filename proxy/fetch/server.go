package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// requestTimeout bounds the arrival of a request, answerMargin the way of an
	// answer: the daemon is on the same machine.
	requestTimeout = 5 * time.Second
	answerMargin   = 5 * time.Second
	requestLimit   = 4 * urlLimit // bytes; JSON may write a byte in six
)

// request is the body of POST /fetch.
type request struct {
	URL string `json:"url"`
}

// Server answers the daemon. Create it with NewServer.
type Server struct {
	fetcher *Fetcher
	http    http.Server
	unused  time.Duration
	timer   *time.Timer // runs while there is no connection

	mu   sync.Mutex
	open int // connections
}

// NewServer builds a server that ends when it had no connection for unused.
func NewServer(fetcher *Fetcher, unused time.Duration, logger *slog.Logger) *Server {
	s := &Server{fetcher: fetcher, unused: unused, timer: time.NewTimer(unused)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fetch", s.fetch)
	s.http = http.Server{
		Handler:           mux,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      fetcher.limits.Time + answerMargin + requestTimeout,
		ConnState:         s.count,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Run accepts until ctx ends or nobody has connected for long enough, and
// finishes what it has accepted; then it returns nil.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	defer s.timer.Stop()
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("cannot accept: %v", err)
	case <-ctx.Done():
	case <-s.timer.C:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.http.WriteTimeout)
	defer cancel()
	err := s.http.Shutdown(grace)
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// count starts the timer with the end of the last connection.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open++
		s.timer.Stop()
	case http.StateClosed:
		if s.open--; s.open == 0 {
			s.timer.Reset(s.unused)
		}
	}
}

// fetch serves POST /fetch.
func (s *Server) fetch(w http.ResponseWriter, r *http.Request) {
	var asked request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestLimit)).Decode(&asked); err != nil {
		refuse(w, wrong(CodeURL, "the URL is too long, or the request is not JSON"))
		return
	}
	image, err := s.fetcher.Fetch(r.Context(), asked.URL)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", image.Type)
	w.Header().Set("Content-Length", strconv.Itoa(len(image.Data)))
	_, _ = w.Write(image.Data) // an error is a daemon that has gone
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
