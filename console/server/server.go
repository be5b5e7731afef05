// Package server serves the page of `codex-proxy console` on the loopback. It has no rights: everything that it shows
// or does is an order to the process that started it.
package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"codex-proxy/console/pipe"
)

const (
	// linkLife is how long the link is valid.
	linkLife = time.Minute
	// maxStreams bounds the open pages, and their further streams.
	maxStreams = 4
	// maxBody bounds the body of a request, in bytes.
	maxBody = 16 << 10
	// patience is how long a page may take for one line of its stream, or for an answer.
	patience    = 5 * time.Second
	readTimeout = 10 * time.Second
	maxHeader   = 16 << 10
)

// Orders carries out the orders of the page.
type Orders interface {
	Do(ctx context.Context, o pipe.Order) (json.RawMessage, error)
	Stream(ctx context.Context, o pipe.Order, each func(json.RawMessage) error) error
}

// Settings configure a Server.
type Settings struct {
	Orders Orders
	Files  fs.FS
	Token  string // of the link
	Port   int    // of the listener
	// ReadOnly has the page offer no orders. The process with rights enforces it.
	ReadOnly bool
	Page     Page
}

// Page is the service that a page shows.
type Page struct {
	Service string     `json:"service"` // its name
	Watch   pipe.Order `json:"watch"`   // the order for the stream of all that the page shows
	Streams []string   `json:"streams"` // the verbs of further streams
}

// Server serves the page. Its methods are safe for concurrent use.
type Server struct {
	settings Settings
	host     string // that browsers may name
	born     time.Time
	pages    chan struct{}
	streams  chan struct{}
	patience time.Duration

	mu      sync.Mutex // guards the rest
	used    bool       // the link was
	session string     // empty before the link was used
}

// Token returns a random text that cannot be guessed.
func Token() string {
	random := make([]byte, 24)
	rand.Read(random) // never fails: crypto/rand aborts the program instead
	return base64.RawURLEncoding.EncodeToString(random)
}

// New returns a server whose link is valid from now on.
func New(s Settings) *Server {
	// Not localhost: browsers try its IPv6 address first, at which another user may listen.
	return &Server{settings: s, born: time.Now(), pages: make(chan struct{}, maxStreams),
		streams: make(chan struct{}, maxStreams), patience: patience,
		host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))}
}

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := http.Server{Handler: s, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: s.patience, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(bounded{l, make(chan struct{}, maxConnections)}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// policy lets a page load its own files, and call its own server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control": "no-store", "X-Frame-Options": "DENY",
	} {
		w.Header().Set(name, value)
	}
	switch status, why := s.judge(r); {
	case status != 0:
		refuse(w, status, why)
	case r.URL.Path == "/api/session":
		s.exchange(w, r)
	case !strings.HasPrefix(r.URL.Path, "/api/"):
		s.file(w, r)
	case !s.known(r):
		refuse(w, http.StatusUnauthorized, "open the link that "+s.settings.Page.Service+" console has printed")
	case r.URL.Path == "/api/watch":
		s.stream(w, r, s.settings.Page.Watch, s.pages)
	case r.URL.Path == "/api/follow":
		s.follow(w, r)
	case r.URL.Path == "/api/do":
		s.do(w, r)
	default:
		refuse(w, http.StatusNotFound, "there is no such path")
	}
}

// judge refuses requests of other pages, whatever they ask for: status 0 lets one in.
func (s *Server) judge(r *http.Request) (status int, why string) {
	origin, named := strings.CutPrefix(r.Header.Get("Origin"), "http://")
	site := r.Header.Get("Sec-Fetch-Site")
	post := slices.Contains([]string{"/api/session", "/api/do", "/api/follow"}, r.URL.Path)
	switch {
	case r.Host != s.host:
		return http.StatusMisdirectedRequest, "the console is at http://" + s.host + " alone"
	case r.Header.Get("Origin") != "" && (!named || origin != r.Host):
		return http.StatusForbidden, "another page has sent this"
	case site != "" && site != "same-origin" && site != "none" && !navigates(r):
		return http.StatusForbidden, "another page has sent this"
	case r.URL.RawQuery != "":
		return http.StatusBadRequest, "no path takes parameters"
	case post != (r.Method == http.MethodPost) || !post && r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, "GET, and POST for orders"
	case post && r.Header.Get("Content-Type") != "application/json":
		return http.StatusUnsupportedMediaType, "orders are JSON"
	}
	return 0, ""
}

// navigates reports whether a browser opens the page itself, by a link of another page. It shows that page no more.
func navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// exchange gives a session to the first request with the token of the link.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "the request is no JSON object")
		return
	}
	session, why := s.begin(body.Token)
	if why != "" {
		refuse(w, http.StatusForbidden, why)
		return
	}
	answer(w, map[string]any{"session": session, "read_only": s.settings.ReadOnly, "service": s.settings.Page.Service})
}

func (s *Server) begin(token string) (session, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := "; end " + s.settings.Page.Service + " console with Ctrl-C and start it again"
	switch {
	case s.used:
		return "", "the link was used" + again
	case time.Since(s.born) > linkLife:
		return "", "the link was valid for " + linkLife.String() + again
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.settings.Token)) != 1:
		return "", "the link is wrong"
	}
	s.used, s.session = true, Token()
	return s.session, ""
}

// known reports whether the request has the session. A browser never sends it by itself, as it does with cookies.
func (s *Server) known(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return bearer && s.session != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.session)) == 1
}

// file serves a file of the page. They have no secret.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	info, err := fs.Stat(s.settings.Files, name)
	if err != nil || info.IsDir() {
		refuse(w, http.StatusNotFound, "there is no such file")
		return
	}
	content, err := fs.ReadFile(s.settings.Files, name)
	if err != nil {
		refuse(w, http.StatusNotFound, "there is no such file")
		return
	}
	kinds := map[string]string{"html": "text/html", "js": "text/javascript", "css": "text/css",
		"svg": "image/svg+xml", "json": "application/json"}
	_, ending, _ := strings.Cut(name, ".")
	w.Header().Set("Content-Type", kinds[ending]+"; charset=utf-8")
	_, _ = w.Write(content) // the client has gone
}

// follow streams the values of one order.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	o, ok := orderOf(w, r)
	switch {
	case !ok:
	case !slices.Contains(s.settings.Page.Streams, o.Verb):
		refuse(w, http.StatusBadRequest, "the order has no stream; POST /api/do carries it out")
	default:
		s.stream(w, r, o, s.streams)
	}
}

// stream carries out an order, and sends its values as they are there.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, order pipe.Order, places chan struct{}) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	default:
		refuse(w, http.StatusServiceUnavailable, "too many pages are open; close one")
		return
	}
	to := http.NewResponseController(w)
	sent := false
	err := s.settings.Orders.Stream(r.Context(), order, func(line json.RawMessage) error {
		if !sent {
			w.Header().Set("Content-Type", "application/x-ndjson")
			sent = true
		}
		if err := to.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		return to.Flush()
	})
	if err != nil && !sent && r.Context().Err() == nil {
		s.beginAnswer(w)
		refuse(w, http.StatusBadGateway, err.Error())
	}
}

// do carries out one order of the page.
func (s *Server) do(w http.ResponseWriter, r *http.Request) {
	o, ok := orderOf(w, r)
	if !ok {
		return
	}
	if o.Verb == s.settings.Page.Watch.Verb || slices.Contains(s.settings.Page.Streams, o.Verb) {
		refuse(w, http.StatusBadRequest, "the order has a stream: GET /api/watch, or POST /api/follow")
		return
	}
	value, err := s.settings.Orders.Do(r.Context(), o)
	s.beginAnswer(w)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, value)
}

// orderOf reads the order of a request; false after a refusal.
func orderOf(w http.ResponseWriter, r *http.Request) (o pipe.Order, ok bool) {
	from := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	from.DisallowUnknownFields()
	if err := from.Decode(&o); err != nil {
		refuse(w, http.StatusBadRequest, "the order is no JSON object with verb and words, or is too long")
		return o, false
	}
	return o, true
}

// beginAnswer gives the page its time for an answer, after an order that may have taken longer.
func (s *Server) beginAnswer(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.patience)) // a writer without one needs none
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client has gone
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // the client has gone
}
