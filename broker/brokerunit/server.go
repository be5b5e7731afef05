// Package brokerunit is the main process of codex-broker@.service: it sends the requests of a worker's codex to the
// model endpoint, with the provider's key, which codex does not have.
package brokerunit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/modelproxy"
	"codex-proxy/units"
	"codex-proxy/workers/broker"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/login"
)

// Server serves one worker.
type Server struct {
	*modelproxy.Proxy
	endpoint string
	ready    string       // the line of `systemctl status`
	status   func(string) // sets that
	logger   *slog.Logger
}

// SetStatus sets the function that sets the line of `systemctl status`.
func (s *Server) SetStatus(set func(string)) { s.status = set }

// Load reads the worker's file and its key, which lies in the directory of the unit's credentials. It returns the
// server and the status of its unit.
func Load(name, settings, credentials string, logger *slog.Logger) (s *Server, status string, err error) {
	if err := units.ValidName(name); err != nil {
		return nil, "", err
	}
	w, err := codexhome.Load(filepath.Join(settings, name+".toml"))
	if err != nil {
		return nil, "", err
	}
	if !w.Brokered || os.Getenv(MadeOf) != madeOf(w) {
		return nil, "", fmt.Errorf("%s has changed: `systemctl daemon-reload`, then `systemctl restart %s`", w.File,
			units.Worker(name))
	}
	if w.LoginApart() {
		return withLogin(name, w.Connections, logger.With("worker", name))
	}
	key, err := readKey(w.Provider.Credential, credentials)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w: mend LoadCredential= by `systemctl edit %[3]s`, then `systemctl restart %[3]s`",
			w.File, err, units.Worker(name))
	}
	ca := ""
	if w.Provider.CAFile != "" {
		ca = filepath.Join(credentials, Authorities)
	}
	logger = logger.With("worker", name)
	proxy, err := modelproxy.ForWorker(modelproxy.Endpoint{BaseURL: w.Provider.BaseURL, Key: key, CAFile: ca,
		Query: codexhome.Query(w), Connections: w.Connections}, logger)
	if err != nil {
		return nil, "", fmt.Errorf("%s: provider.ca_file = %q holds no certificate, or does not exist: give a PEM file, "+
			"with BEGIN CERTIFICATE", w.File, w.Provider.CAFile)
	}
	s = &Server{Proxy: proxy, endpoint: Origin(w.Provider.BaseURL), status: func(string) {}, logger: logger}
	s.ready = "Ready: requests go to " + s.endpoint
	return s, s.ready, nil
}

// withLogin is the server of a worker with a login, which another unit keeps.
func withLogin(name string, connections int, logger *slog.Logger) (*Server, string, error) {
	socket := os.Getenv(LoginVariable)
	if !isSocket(socket) {
		return nil, "", fmt.Errorf("the socket of its login is not there: `systemctl restart %s %s`",
			units.LoginSocket(name), units.Worker(name))
	}
	own := sourceAt(socket, name)
	served := servedLogins(name, own, logger)
	proxy, err := modelproxy.ForLogin(own, served, modelproxy.Public, connections, logger)
	if err != nil {
		return nil, "", err
	}
	s := &Server{Proxy: proxy, endpoint: "OpenAI", status: func(string) {}, logger: logger}
	s.ready = "Ready: requests go to OpenAI, with the login of " + units.Login(name)
	if others := len(served) - 1; others > 0 {
		s.ready += fmt.Sprintf(" and %d more", others)
	}
	return s, s.ready, nil
}

// sourceAt is the login of an account, by the socket of its unit.
func sourceAt(socket, account string) modelproxy.LoginSource {
	return func(ctx context.Context, refused string) (broker.Login, error) {
		got, err := login.Ask(ctx, socket, refused)
		return got, namedLogin(account, err)
	}
}

// namedLogin names the unit of a login that has not answered, and where its reason is.
func namedLogin(name string, err error) error {
	if err == nil || broker.CodeOf(err) != "" {
		return err
	}
	return &broker.Error{Code: broker.Unavailable,
		Message: fmt.Sprintf("%[1]s gives no login (`journalctl -u %[1]s`): %[2]v", units.Login(name), err)}
}

// Origin is an address without what may be a secret: its login and its query. Every user can read the status of a unit.
func Origin(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "the model endpoint"
	}
	return u.Scheme + "://" + u.Host
}

// readKey returns the key; empty if the provider needs none.
func readKey(credential, dir string) (string, error) {
	if credential == "" {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join(dir, credential))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no LoadCredential=%[1]s:FILE in the drop-ins of the worker's unit gives the credential %[1]q", credential)
	case err != nil:
		return "", fmt.Errorf("cannot read the key: %w", err)
	case string(text) == missing:
		return "", fmt.Errorf("the file of the credential %q, by LoadCredential= of the worker's unit, does not exist",
			credential)
	}
	key, err := modelproxy.ReadKey(bytes.NewReader(text))
	if err != nil {
		return "", fmt.Errorf("the credential %q: %w", credential, err)
	}
	return key, nil
}

const (
	// A stopping broker accepts requests for drainBound, or until none is in flight, and then finishes them within
	// cutBound. TimeoutStopSec= of the unit is longer than both.
	drainBound = 2 * time.Minute
	cutBound   = 3 * time.Minute
)

// Run serves until ctx ends, and finishes the requests in flight. The socket stays open in systemd: a later connection
// waits there for the next process.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	publishing, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.publisher(ctx).run(publishing)
	}()
	defer func() { end(); <-ended }()
	return s.RunAndDrain(ctx, l, drainBound, cutBound)
}

// publisher leaves the line of a stopping unit as it is.
func (s *Server) publisher(ctx context.Context) *publisher {
	return &publisher{state: s.State, changed: s.Changed(), dir: os.Getenv("RUNTIME_DIRECTORY"), ready: s.ready,
		logger: s.logger, status: func(text string) {
			if ctx.Err() == nil {
				s.status(text)
			}
		}}
}

// State returns the state of the broker.
func (s *Server) State() *brokerstate.State {
	state := s.Proxy.State()
	state.Endpoint = s.endpoint
	return state
}
