package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is how to reach a database.
type Server struct {
	Address  Address
	CA       string // the file with the certificates of its authority; empty: those of the system
	Password string
	Relay    string // a unix socket that leads to the server; empty: the network
}

// errNoPassword has the remedy: systemd reads credentials at a start of the unit (LoadCredential=, systemd.exec(5)).
var errNoPassword = errors.New("there is no password of the database; put the one of the other hosts into " +
	"/etc/codex-proxy/database-password, mode 0600; have the SQL of codex-proxy database init run on the server, also " +
	"if it has run before, and codex_service in its pg_hba.conf; then codex-proxy database migrate, codex-proxy " +
	"database join and systemctl restart codex-proxy")

// config is pgx's configuration. A unix socket as the host of the URL would turn TLS off (pgconn.ParseConfig), so the
// name stays, and the dialer alone knows of the socket.
func (s Server) config() (*pgx.ConnConfig, error) {
	if s.Password == "" {
		return nil, errNoPassword
	}
	u, query := *s.Address.url, url.Values{"sslmode": {"verify-full"}}
	if s.CA != "" {
		query.Set("sslrootcert", s.CA)
	}
	u.RawQuery = query.Encode()
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	if s.CA == "" {
		config.TLSConfig.RootCAs = nil // a file in ~/.postgresql, or a variable of the caller, does not count
	}
	config.Password, config.Fallbacks = s.Password, nil
	config.RuntimeParams["application_name"] = "codex-proxy"
	// Poolers in transaction mode keep no prepared statements.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if s.Relay != "" {
		config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
		config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.Relay)
		}
	}
	return config, nil
}

// Session keeps one connection to a server, and opens it anew after a failure. One goroutine may use it.
type Session struct {
	server Server
	bound  time.Duration // of each call
	conn   *pgx.Conn     // nil: none
}

// NewSession returns a session that has no connection yet.
func NewSession(server Server, bound time.Duration) *Session {
	return &Session{server: server, bound: bound}
}

// Do calls work with the connection, within the bound. If a kept connection turns out to be lost, Do calls work once
// more, on a new one: work has to be right if the server has done it already.
func (s *Session) Do(ctx context.Context, work func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	return s.within(ctx, s.bound, work)
}

// within is Do in a context that ends after a bound.
func (s *Session) within(ctx context.Context, bound time.Duration,
	work func(ctx context.Context, conn *pgx.Conn) error) error {
	kept := s.conn != nil
	err := s.try(ctx, work)
	if kept && s.conn == nil && ctx.Err() == nil {
		err = s.try(ctx, work)
	}
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("no answer within %v", bound)
	}
	return plain(err)
}

// try calls work. Only an error of the server in words leaves the connection as it is.
func (s *Session) try(ctx context.Context, work func(ctx context.Context, conn *pgx.Conn) error) error {
	if s.conn == nil {
		config, err := s.server.config()
		if err != nil {
			return err
		}
		if s.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			s.conn = nil
			return err
		}
	}
	err := work(ctx, s.conn)
	if err != nil && s.conn.IsClosed() {
		s.conn = nil
	}
	return err
}

// Close closes the connection.
func (s *Session) Close() {
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.conn.Close(ctx) // the server notices it in any case
		s.conn = nil
	}
}

// line is an error with a text of one line.
type line struct{ error }

// Error implements error.
func (l line) Error() string { return strings.Join(strings.Fields(l.error.Error()), " ") }

// Unwrap returns the error.
func (l line) Unwrap() error { return l.error }

func plain(err error) error {
	if err == nil {
		return nil
	}
	return line{err}
}
