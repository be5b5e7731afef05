package authz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// Elsewhere has the commands and files of a remote if codex has none.
type Elsewhere interface {
	// Serves reports whether a request is served there, and not by codex.
	Serves(method string, params []byte) bool
	// Serve serves a request of an owner. It is called once for each, and returns an error if it has not answered.
	Serve(ctx context.Context, of *Aside, method string, params []byte) error
	// Settle returns the parameters of another request of an owner as codex gets them. The error is its refusal. The
	// client's next message waits for it.
	Settle(ctx context.Context, of *Aside, method string, params []byte) ([]byte, error)
	// Left is called when a client has gone, by its name.
	Left(client string)
}

const (
	// mostAside bounds the requests of one client that are served elsewhere at the same time.
	mostAside = 16
	// MostAnswer bounds an answer and a notification of these, in bytes of JSON.
	MostAnswer = 900 << 10
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
	if a == nil || m.id == nil || !a.of.Serves(m.method, m.params) {
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
	params, err := a.of.Settle(a.ctx, &Aside{of: a}, m.method, m.params)
	if err != nil {
		return m, refuse("%s is refused: %v", m.method, err)
	}
	m.params = params
	return m, verdict{pass: fmt.Appendf(nil, `{"id":%s,"method":%q,"params":%s}`, m.id, m.method, params)}
}

// Aside is a request that is served elsewhere, or its client.
type Aside struct {
	id []byte
	of *aside

	mu       sync.Mutex
	answered bool
}

// Name is different for each of the clients that are attached.
func (a *Aside) Name() string { return a.of.session.name() }

// User is the user of the client.
func (a *Aside) User() string { return a.of.session.User() }

// Answer sends the result. Calls after one that has sent it do nothing.
func (a *Aside) Answer(result any) error {
	text, err := encoded(result)
	if err != nil {
		return err
	}
	if len(text) > MostAnswer {
		return fmt.Errorf("the answer has more than %d KiB", MostAnswer>>10)
	}
	return a.once(framed(fmt.Appendf(nil, `{"id":%s,"result":%s}`, a.id, text)))
}

// Notify sends a notification.
func (a *Aside) Notify(method string, params any) error {
	text, err := encoded(map[string]any{"method": method, "params": params})
	if err != nil {
		return err
	}
	if len(text) > MostAnswer {
		return fmt.Errorf("%s has more than %d KiB", method, MostAnswer>>10)
	}
	return a.of.put(framed(text))
}

func (a *Aside) refuse(method string, err error) {
	_ = a.once(refusal(a.id, method+": "+err.Error())) // it may have gone
}

// once sends the frame of the answer. One that was not sent is no answer.
func (a *Aside) once(frame []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered {
		return nil
	}
	err := a.of.put(frame)
	a.answered = err == nil
	return err
}

// encoded is JSON in which the characters of HTML have one byte each, as codex writes it.
func encoded(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func framed(body []byte) []byte {
	return append(appendHeader(nil, header{fin: true, op: text, length: int64(len(body))}), body...)
}

// put sends a frame between two messages of codex, and waits for the end of a long one.
func (a *aside) put(frame []byte) error { return a.answers.wait(a.ctx, frame) }
