package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrAway means that the database does not answer, or cannot be used.
var ErrAway = errors.New("the database does not answer")

// connections bounds the connections of a Pool.
const connections = 4

// Pool keeps up to four connections to a server. While the server does not answer, calls of Do fail at once, until
// one of Probe does not.
type Pool struct {
	places chan struct{} // one for each connection

	mu   sync.Mutex
	idle []*Session // the one used last is used next
	why  error      // of the last failure; nil: it answers
}

// NewPool returns a pool that has no connection yet.
func NewPool(server Server) *Pool {
	p := &Pool{places: make(chan struct{}, connections)}
	for range connections {
		p.idle = append(p.idle, NewSession(server, 0))
	}
	return p
}

// Do calls work with a connection, within a bound, whatever happens to ctx: to give up a call costs its connection. It
// may call work twice, see Session. An error is ErrAway if the server cannot be used: if it does not come from the
// server, or is one of its errors for that. work must not return errors of its own.
func (p *Pool) Do(ctx context.Context, bound time.Duration, work func(context.Context, *pgx.Conn) error) error {
	return p.do(ctx, bound, false, work)
}

// Probe is Do that tries a server which does not answer.
func (p *Pool) Probe(ctx context.Context, bound time.Duration) error {
	return p.do(ctx, bound, true, func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
}

func (p *Pool) do(ctx context.Context, bound time.Duration, probe bool,
	work func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: all connections are in use", ErrAway)
	}
	defer func() { <-p.places }()
	session, err := p.take(probe)
	if err != nil {
		return err
	}
	err = session.within(ctx, bound, work)
	away := isAway(err)
	p.put(session, err, away)
	if away {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// take returns a session, or an error if the server does not answer. The caller has a place.
func (p *Pool) take(probe bool) (*Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil && !probe {
		return nil, fmt.Errorf("%w: %w", ErrAway, p.why)
	}
	last := len(p.idle) - 1
	session := p.idle[last]
	p.idle = p.idle[:last]
	return session, nil
}

func (p *Pool) put(session *Session, err error, away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, session)
	if p.why = nil; away {
		p.why = err
	}
}

// Away returns the last failure while the database does not answer; nil: it answers.
func (p *Pool) Away() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// Close closes the connections. Calls must have ended.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, session := range p.idle {
		session.Close()
	}
}

// isAway reports whether an error is not about the data of one call. Source: "PostgreSQL Error Codes", the classes.
func isAway(err error) bool {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return false
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || len(refused.Code) < 2 {
		return true
	}
	switch refused.Code[:2] {
	case "22", "23", "40", "54": // data, constraints, other transactions in the way, limits of the program
		return false
	}
	// A lock that another transaction has, and a statement that took too long.
	return refused.Code != "55P03" && refused.Code != "57014"
}
