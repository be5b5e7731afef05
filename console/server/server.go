// Package server serves the page of `codex-proxy console` on the loopback. It has no rights: everything that it shows
// or does is an order to the process that started it.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"codex-proxy/console/pipe"
	"codex-proxy/internal/ondemand"
)

const (
	// maxStreams bounds the open pages, and their further streams.
	maxStreams = 4
	// maxKeyedStreams is the same for a page of other machines.
	maxKeyedStreams = 8
	// maxOfSession and maxOfKey bound the streams of one session, and of all with one key.
	maxOfSession = 3
	maxOfKey     = 5
	// maxJudged bounds the judgements of sessions and keys at the same time.
	maxJudged = 8
	// maxAnswers bounds the answers of notifications at the same time.
	maxAnswers = 4
	// maxSecret and maxSession bound a key or the end of a link, and a session, in bytes.
	maxSecret  = 256
	maxSession = 512
	// heartbeat is the time after which a stream without a value has an empty line: a peer that is gone fails it.
	heartbeat = 15 * time.Second
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
	Access Access
	// Origins are the addresses of the page, as browsers name them.
	Origins []string
	Page    Page
	// Unused is how long the server goes on without a connection; 0: always.
	Unused time.Duration
	// Answer carries out a button of a notification, by a token that is valid once; nil: there are no notifications.
	Answer func(ctx context.Context, token, decision string) error
}

// Access admits people to the page.
type Access interface {
	// Begin exchanges a secret for a session. Without one, why is for the person. An error is no judgement.
	Begin(ctx context.Context, secret string) (begun Begun, why string, err error)
	// Known refuses a session that is not in force with a reason. An error is no judgement.
	Known(ctx context.Context, session string) (why string, err error)
	// Person is the owner of a session; empty: there is one person.
	Person(session string) string
	// Keyed reports that the secret is an API key, which the page asks for; else it is the end of a link.
	Keyed() bool
}

// Begun is a session that a page has just got.
type Begun struct {
	Session string `json:"session"`
	// ReadOnly has the page offer no orders. The process with rights enforces it.
	ReadOnly bool   `json:"read_only"`
	Service  string `json:"service"`
	Key      string `json:"key,omitempty"` // the name of the key
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
	origins  map[string]string // by their hosts, which browsers may name
	pages    *places
	streams  *places
	judged   chan struct{}
	answers  chan struct{}
	patience time.Duration
	opened   sync.Once // a page has its stream
}

// Loopback is the address of a page of this machine. Not localhost: browsers try its IPv6 address first, at which
// another user may listen.
func Loopback(port int) string { return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// New returns a server.
func New(settings Settings) *Server {
	most := maxStreams
	if settings.Access.Keyed() {
		most = maxKeyedStreams
	}
	person := settings.Access.Person
	s := &Server{settings: settings, pages: &places{most: most, person: person},
		streams: &places{most: most, person: person}, judged: make(chan struct{}, maxJudged),
		answers: make(chan struct{}, maxAnswers), patience: patience,
		origins: map[string]string{}}
	for _, origin := range settings.Origins {
		_, host, _ := strings.Cut(origin, "://")
		s.origins[host] = origin
	}
	return s
}

// Serve serves until ctx ends, or nobody has been connected for a time.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	server := http.Server{Handler: s, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: s.patience, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if s.settings.Unused > 0 {
		idle := ondemand.NewIdle(s.settings.Unused)
		defer idle.Stop()
		server.ConnState = idle.ConnState
		go func() {
			select {
			case <-idle.Over():
				end()
			case <-ctx.Done():
			}
		}()
	}
	if err := server.Serve(bounded{l, make(chan struct{}, maxConnections)}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// policy lets a page load its own files, and call its own server.
const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; " +
	"connect-src 'self'; img-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

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
	case r.URL.Path == "/api/answer" && s.settings.Answer != nil:
		s.answer(w, r)
	case !strings.HasPrefix(r.URL.Path, "/api/"):
		s.file(w, r)
	case r.URL.Path == "/api/access":
		answer(w, map[string]bool{"keyed": s.settings.Access.Keyed()})
	default:
		s.known(w, r)
	}
}

// known serves a request that has the session. A browser never sends it by itself, as it does with cookies.
func (s *Server) known(w http.ResponseWriter, r *http.Request) {
	var why string
	err := s.judging(r.Context(), func() (err error) {
		why, err = s.settings.Access.Known(r.Context(), sessionOf(r))
		return err
	})
	s.beginAnswer(w)
	switch {
	case err != nil:
		refuse(w, http.StatusBadGateway, err.Error())
	case why != "":
		refuse(w, http.StatusUnauthorized, why)
	case r.URL.Path == "/api/watch":
		o := s.settings.Page.Watch
		o.As = s.as(r)
		s.stream(w, r, o, s.pages)
	case r.URL.Path == "/api/follow":
		s.follow(w, r)
	case r.URL.Path == "/api/do":
		s.do(w, r)
	default:
		refuse(w, http.StatusNotFound, "there is no such path")
	}
}

// judging runs one judgement when there is room: requests without a session leave room for orders.
func (s *Server) judging(ctx context.Context, run func() error) error {
	select {
	case s.judged <- struct{}{}:
		defer func() { <-s.judged }()
		return run()
	case <-time.After(s.patience):
		return errors.New("too many requests at the same time; try again in a moment")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// judge refuses requests of other pages, whatever they ask for: status 0 lets one in.
func (s *Server) judge(r *http.Request) (status int, why string) {
	origin, ours := s.origins[r.Host]
	from, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	post := slices.Contains([]string{"/api/session", "/api/do", "/api/follow", "/api/answer"}, r.URL.Path)
	switch {
	case !ours:
		return http.StatusMisdirectedRequest,
			"the console is at " + strings.Join(s.settings.Origins, " and ") + " alone"
	case from != "" && from != origin:
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

// exchange gives a session for the token of the link, or for a key.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "the request is no JSON object")
		return
	}
	if len(body.Token) > maxSecret {
		refuse(w, http.StatusForbidden, fmt.Sprintf("no key has more than %d bytes", maxSecret))
		return
	}
	var begun Begun
	var why string
	err := s.judging(r.Context(), func() (err error) {
		begun, why, err = s.settings.Access.Begin(r.Context(), body.Token)
		return err
	})
	s.beginAnswer(w)
	switch {
	case err != nil:
		refuse(w, http.StatusBadGateway, err.Error())
	case why != "":
		refuse(w, http.StatusForbidden, why)
	default:
		answer(w, begun)
	}
}

// sessionOf is the session that a request has.
func sessionOf(r *http.Request) string {
	session, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || len(session) > maxSession {
		return ""
	}
	return session
}

// as is the session of an order: where there are several, the process with rights judges each order by its own.
func (s *Server) as(r *http.Request) string {
	if s.settings.Access.Keyed() {
		return sessionOf(r)
	}
	return ""
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
		"svg": "image/svg+xml", "json": "application/json", "webmanifest": "application/manifest+json"}
	_, ending, _ := strings.Cut(name, ".")
	w.Header().Set("Content-Type", kinds[ending]+"; charset=utf-8")
	_, _ = w.Write(content) // the client has gone
}

// follow streams the values of one order.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	o, ok := s.orderOf(w, r)
	switch {
	case !ok:
	case !slices.Contains(s.settings.Page.Streams, o.Verb):
		refuse(w, http.StatusBadRequest, "the order has no stream; POST /api/do carries it out")
	default:
		s.stream(w, r, o, s.streams)
	}
}

// do carries out one order of the page.
func (s *Server) do(w http.ResponseWriter, r *http.Request) {
	o, ok := s.orderOf(w, r)
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
func (s *Server) orderOf(w http.ResponseWriter, r *http.Request) (o pipe.Order, ok bool) {
	from := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	from.DisallowUnknownFields()
	if err := from.Decode(&o); err != nil {
		refuse(w, http.StatusBadRequest, "the order is no JSON object with verb and words, or is too long")
		return o, false
	}
	o.As = s.as(r)
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
