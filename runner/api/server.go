// Package api serves the API of codex-runner on its unix socket: routes, access by the credentials of the connection,
// and the envelope of errors. Package wire has its types and its document.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os/user"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// Settings of a Server.
type Settings struct {
	Runner  *runner.Runner
	Version string // of the program
	// Admins are names of users that see the sessions of all users, as root does.
	Admins []string
	// Connections bounds the connections of each user but root; 0 is no bound.
	Connections int
	Metrics     prometheus.Gatherer
	Logger      *slog.Logger
}

// Server serves the API. Its methods are safe for concurrent use.
type Server struct {
	Settings

	since    time.Time
	watchers places
	http     http.Server
	stop     context.CancelFunc // ends the requests that follow a log
	done     context.Context    //nolint:containedctx // of stop: it bounds the server, not a call
}

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
)

// New returns a server, which serves nothing until Serve.
func New(s Settings) *Server {
	done, stop := context.WithCancel(context.Background())
	v := &Server{Settings: s, since: time.Now().UTC(), watchers: places{taken: map[uint32]int{}},
		stop: stop, done: done}
	v.http = http.Server{
		Handler: v.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ConnContext: WithPeer, ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	return v
}

// Serve accepts connections until Shutdown; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(limited(l, s.Connections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown ends the requests that follow logs, waits for all others, and closes the rest when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// route is a handler that returns its error.
type route func(w http.ResponseWriter, r *http.Request, c caller) error

// Handler serves all routes. Its connections have the context of WithPeer.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range map[string]route{
		"GET /v1/openapi.yaml":                         s.document,
		"GET /v1/status":                               s.status,
		"GET /v1/watch":                                s.watch,
		"GET /metrics":                                 s.metrics,
		"POST /v1/sessions":                            s.createSession,
		"GET /v1/sessions":                             s.listSessions,
		"GET /v1/sessions/{id}":                        s.session((*session).get),
		"POST /v1/sessions/{id}/commands":              s.session((*session).addCommand),
		"GET /v1/sessions/{id}/commands/{n}":           s.session((*session).getCommand),
		"PUT /v1/sessions/{id}/commands/{n}/stdin":     s.session((*session).putStdin),
		"GET /v1/sessions/{id}/commands/{n}/logs":      s.session((*session).getLogs),
		"POST /v1/sessions/{id}/commands/{n}/terminal": s.session((*session).terminal),
		"POST /v1/sessions/{id}/cancel":                s.session((*session).cancel),
		"POST /v1/sessions/{id}/release":               s.session((*session).release),
		"POST /v1/sessions/{id}/shell":                 s.session((*session).shell),
		"POST /v1/sessions/{id}/ports/{port}":          s.session((*session).port),
		"GET /v1/sessions/{id}/artifacts":              s.session((*session).listArtifacts),
		"GET /v1/sessions/{id}/artifacts/{artifact}":   s.session((*session).getArtifact),
		"GET /v1/repositories":                         s.listRepositories,
		"POST /v1/repositories":                        s.addRepository,
		"PUT /v1/repositories/{key}/bundle":            s.putBundle,
		"POST /v1/prune":                               s.prune,
		"/":                                            s.unknown,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c, err := s.caller(r)
			if err == nil {
				err = serve(w, r, c)
			}
			if err != nil {
				s.fail(w, r, err)
			}
		})
	}
	return mux
}

func (s *Server) unknown(_ http.ResponseWriter, r *http.Request, _ caller) error {
	return &wire.Error{Code: wire.NotFound, Message: "there is no " + r.Method + " " + r.URL.Path,
		Remedy: "GET /v1/openapi.yaml has what there is; a newer client needs a newer codex-runner.service"}
}

// fail answers with an error. One that is not a *wire.Error is a fault of the daemon.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	refused, ok := errors.AsType[*wire.Error](err)
	if !ok && r.Context().Err() == nil {
		s.Logger.Error("a request to codex-runner failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if !ok {
		refused = &wire.Error{Code: wire.Internal, Message: err.Error(), Remedy: "journalctl -u codex-runner has more"}
	}
	answer(w, refused.Code.Status(), wire.Failure{Error: refused})
}

// answer writes JSON. An error here can only be a client that has gone.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// caller is the user at the other end of a connection.
type caller struct {
	wire.Owner
	admin bool
}

// viewer sees the sessions of the caller, or all for an administrator.
func (c caller) viewer() store.Viewer { return store.Viewer{UID: c.UID, All: c.admin} }

type peerKey struct{}

// WithPeer is a ConnContext of http.Server. It adds the credentials of a connection, SO_PEERCRED of unix(7), to the
// context of its requests.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	var socket *net.UnixConn
	switch c := conn.(type) {
	case *connection:
		socket = c.UnixConn
	case *net.UnixConn:
		socket = c
	default:
		return ctx
	}
	user, ok := peer(socket)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, user)
}

func (s *Server) caller(r *http.Request) (caller, error) {
	uid, ok := r.Context().Value(peerKey{}).(uint32)
	if !ok {
		return caller{}, &wire.Error{Code: wire.Forbidden, Message: "the connection has no credentials",
			Remedy: "connect to the unix socket"}
	}
	c := caller{Owner: wire.Owner{UID: uid}, admin: uid == 0}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		c.Name = u.Username
	}
	for _, name := range s.Admins {
		c.admin = c.admin || (c.Name != "" && name == c.Name)
	}
	return c, nil
}

// by names the caller in records.
func (c caller) by() string {
	if c.Name != "" {
		return c.Name
	}
	return "uid " + strconv.FormatUint(uint64(c.UID), 10)
}
