package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// Elsewhere has the commands and files of a remote if codex has none.
type Elsewhere interface {
	// Serves reports whether a request is served there, and not by codex.
	Serves(method string) bool
	// Serve serves a request of an owner. It is called once for each, and returns an error if it has not answered.
	Serve(ctx context.Context, of *Aside, method string, params []byte) error
	// Settle returns the parameters of another request as codex gets them. The error is its refusal.
	Settle(method string, params []byte) ([]byte, error)
	// Left is called when a client has gone, by its name.
	Left(client string)
}

const (
	// mostAside bounds the requests of one client that are served elsewhere at the same time.
	mostAside = 16
	// mostAnswer bounds an answer and a notification of these, in bytes.
	mostAnswer = 900 << 10
)

// aside serves the requests of one client that codex does not get. Its requests end with the connection.
type aside struct {
	of      Elsewhere
	session *clientConn
	answers *clientWriter
	slots   chan struct{}
	tasks   sync.WaitGroup
	ctx     context.Context //nolint:containedctx // of the connection: its requests outlive the calls
	end     context.CancelFunc
}

func newAside(ctx context.Context, of Elsewhere, s *clientConn, answers *clientWriter) *aside {
	if of == nil {
		return nil
	}
	a := &aside{of: of, session: s, answers: answers, slots: make(chan struct{}, mostAside)}
	a.ctx, a.end = context.WithCancel(ctx)
	return a
}

// close ends the requests, and waits for that.
func (a *aside) close() {
	if a == nil {
		return
	}
	a.end()
	a.tasks.Wait()
	a.of.Left(a.session.name())
}

// name is different for each of the clients.
func (s *clientConn) name() string { return strconv.FormatUint(s.ID, 10) }

// take serves a request that codex does not get, and reports whether it is one.
func (a *aside) take(m message) (taken bool, err error) {
	if a == nil || m.id == nil || !a.of.Serves(m.method) {
		return false, nil
	}
	a.session.requests.Add(1)
	request := &Aside{id: append([]byte(nil), m.id...), of: a}
	params := append([]byte(nil), m.params...)
	select {
	case a.slots <- struct{}{}:
	default:
		words := fmt.Sprintf("%d requests about commands and files go on already", mostAside)
		return true, a.answers.put(refusal(m.id, words))
	}
	a.tasks.Go(func() {
		defer func() { <-a.slots }()
		if err := a.of.Serve(a.ctx, request, m.method, params); err != nil && a.ctx.Err() == nil {
			request.refuse(m.method, err)
		}
	})
	return true, nil
}

// settle makes of a request that passes the one that codex gets.
func (a *aside) settle(m message, v verdict) (message, verdict) {
	if a == nil || m.id == nil || a.session.Role != Owner || len(m.params) == 0 || m.params[0] != '{' {
		return m, v
	}
	params, err := a.of.Settle(m.method, m.params)
	if err != nil {
		return m, refuse("%s is refused: %v", m.method, err)
	}
	m.params = params
	return m, verdict{pass: fmt.Appendf(nil, `{"id":%s,"method":%q,"params":%s}`, m.id, m.method, params)}
}

// Aside is a request that is served elsewhere.
type Aside struct {
	id []byte
	of *aside

	answered sync.Once
}

// Name is different for each of the clients that are attached.
func (a *Aside) Name() string { return a.of.session.name() }

// User is the user of the client.
func (a *Aside) User() string { return a.of.session.User() }

// Answer sends the result. Further calls do nothing.
func (a *Aside) Answer(result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if len(text) > mostAnswer {
		return fmt.Errorf("the answer has more than %d KiB", mostAnswer>>10)
	}
	a.answered.Do(func() { err = a.of.put(fmt.Appendf(nil, `{"id":%s,"result":%s}`, a.id, text)) })
	return err
}

// Notify sends a notification.
func (a *Aside) Notify(method string, params any) error {
	text, err := json.Marshal(map[string]any{"method": method, "params": params})
	if err != nil {
		return err
	}
	if len(text) > mostAnswer {
		return fmt.Errorf("%s has more than %d KiB", method, mostAnswer>>10)
	}
	return a.of.put(text)
}

func (a *Aside) refuse(method string, err error) {
	a.answered.Do(func() {
		_ = a.of.answers.put(refusal(a.id, method+": "+err.Error())) // it may have gone
	})
}

// put sends a message between two messages of codex.
func (a *aside) put(body []byte) error {
	return a.answers.put(append(appendHeader(nil, header{fin: true, op: text, length: int64(len(body))}), body...))
}
