package remotes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex-proxy/codex/rpc"
)

// serve is one connection to codex, from its dial to its end.
func (k *Keeper) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inbox := newInbox()
	c, err := rpc.Dial(ctx, k.opts.Socket, rpc.Options{
		Logger:         k.opts.Logger,
		OnRequest:      func(m rpc.Message) error { inbox.put(copyOf(m)); return nil },
		OnNotification: func(m rpc.Message) { inbox.put(copyOf(m)) },
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
	link := &link{Keeper: k, c: c, tasks: &tasks, logins: make(chan string, 1)}
	tasks.Go(func() { inbox.run(ctx, func(m message) { link.handle(ctx, m) }) })
	if err := link.open(ctx); err != nil {
		return err
	}
	tasks.Go(func() { link.sweep(ctx) })
	tasks.Go(func() { link.account(ctx) })
	return <-lost
}

// link is the keeper's side of one connection.
type link struct {
	*Keeper
	c     *rpc.Conn
	home  string // codex's
	tasks *sync.WaitGroup

	logins chan string // the end of a login: why it failed; empty: it did not
	shown  [2]string   // the login as codex shows it
}

// open does the handshake and continues the cut turns.
func (l *link) open(ctx context.Context) error {
	began := time.Now()
	var r initializeResult
	params := initializeParams{
		ClientInfo:   clientInfo{l.opts.ClientName, l.opts.Version},
		Capabilities: capabilities{ExperimentalAPI: true, OptOutNotificationMethods: unused},
	}
	if err := l.c.Call(ctx, "initialize", params, &r); err != nil {
		return fmt.Errorf("codex refuses its keeper: %w", err)
	}
	if err := l.c.Notify(ctx, "initialized", nil); err != nil {
		return err
	}
	l.home = cmp.Or(l.opts.Home, r.Home)
	if err := l.login(ctx); err != nil {
		return err
	}
	done, err := l.reconcile(ctx)
	if err != nil {
		return err
	}
	l.opts.Logger.Info("the keeper has readied codex", "codex", r.version(), "took", time.Since(began), "turns", done)
	l.update(func(s *state) {
		s.link, s.lastErr = l, nil
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

func copyOf(m rpc.Message) message {
	return message{append(json.RawMessage(nil), m.ID...), m.Method, append(json.RawMessage(nil), m.Params...)}
}

// inbox queues messages, as the reading goroutine must not block. Codex is asked for few kinds of them.
type inbox struct {
	mu    sync.Mutex
	list  []message
	ready chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) put(m message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, m)
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
		for _, m := range i.take() {
			handle(m)
		}
	}
}

// refused is an error reply of codex; false for the end of the connection and of contexts.
func refused(err error) (*rpc.Error, bool) {
	var e *rpc.Error
	ok := errors.As(err, &e)
	return e, ok
}
