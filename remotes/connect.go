package remotes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// serve is one connection to codex, from its dial to its end.
func (m *Manager) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inbox := newInbox()
	c, err := rpc.Dial(ctx, m.opts.Socket, rpc.Options{
		Logger:         m.opts.Logger,
		OnRequest:      func(msg rpc.Message) error { inbox.put(copyOf(msg)); return nil },
		OnNotification: func(msg rpc.Message) { inbox.put(copyOf(msg)) },
		OnClose:        cancel,
	})
	if err != nil {
		return err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer c.Close(nil)
	lost := make(chan error, 1)
	tasks.Go(func() { lost <- c.Run(ctx) })
	link := &codexConn{Manager: m, c: c, tasks: &tasks, loginEnd: make(chan string, 1)}
	tasks.Go(func() { inbox.run(ctx, func(msg message) { reports{link}.handle(ctx, msg) }) })
	if err := link.open(ctx); err != nil {
		return err
	}
	tasks.Go(func() { link.sweep(ctx) })
	tasks.Go(func() { logins{link}.account(ctx) })
	return <-lost
}

// codexConn is the manager's side of one connection.
type codexConn struct {
	*Manager
	c     *rpc.Conn
	home  string // codex's
	tasks *sync.WaitGroup

	loginEnd chan string // the end of a login: why it failed; empty: it did not
	shown    [2]string   // the login as codex shows it
}

// reports takes up the reports and requests of codex.
type reports struct{ *codexConn }

// logins keeps codex logged in, with the account that a remote has now.
type logins struct{ *codexConn }

// recovery continues the cut turns of threads.
type recovery struct{ *codexConn }

// open does the handshake and continues the cut turns.
func (l *codexConn) open(ctx context.Context) error {
	began := time.Now()
	var result json.RawMessage
	params := wire.Initialize{
		ClientInfo:   wire.ClientInfo{Name: l.opts.ClientName, Version: l.opts.Version},
		Capabilities: wire.Capabilities{ExperimentalAPI: true, OptOutNotificationMethods: unused},
	}
	if err := l.c.Call(ctx, "initialize", params, &result); err != nil {
		return fmt.Errorf("codex refuses the main process: %w", err)
	}
	var r initializeResult
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("codex answers the main process with what does not parse: %w", err)
	}
	l.opts.Initialized(slices.Clone(result))
	if err := l.c.Notify(ctx, "initialized", nil); err != nil {
		return err
	}
	l.home = cmp.Or(l.opts.Home, r.Home)
	if err := (logins{l}).login(ctx); err != nil {
		return err
	}
	done, err := recovery{l}.reconcile(ctx)
	if err != nil {
		return err
	}
	l.opts.Logger.Info("the main process has readied codex", "codex", r.version(), "took", time.Since(began),
		"turns", done)
	l.update(func(s *state) {
		s.link, s.lastErr, s.version = l, nil, r.version()
		s.detail = fmt.Sprintf("codex %s, %s", r.version(), done)
		s.since = time.Now()
		s.signal()
	})
	return nil
}

// message is a request or a notification of codex that outlives the read buffer.
type message struct {
	id     json.RawMessage
	method string
	params json.RawMessage
}

func copyOf(msg rpc.Message) message {
	return message{append(json.RawMessage(nil), msg.ID...), msg.Method, append(json.RawMessage(nil), msg.Params...)}
}

// inbox queues messages, as the reading goroutine must not block. Codex is asked for few kinds of them.
type inbox struct {
	mu    sync.Mutex
	list  []message
	ready chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) put(msg message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, msg)
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

func (i *inbox) take() []message {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.list
	i.list = nil
	return list
}

// run handles messages in their order until ctx ends.
func (i *inbox) run(ctx context.Context, handle func(message)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.ready:
		}
		for _, msg := range i.take() {
			handle(msg)
		}
	}
}

// refused is an error reply of codex; false for the end of the connection and of contexts.
func refused(err error) (*rpc.Error, bool) {
	var e *rpc.Error
	ok := errors.As(err, &e)
	return e, ok
}
