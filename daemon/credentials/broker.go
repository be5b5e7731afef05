// Package credentials lends the logins of accounts to remotes: it chooses the account, and a worker lends.
package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/broker"
)

// tellEvery is the interval of notices of a choice that changes by time alone, and tellPause the least time between
// two looks.
const (
	tellEvery = time.Second
	tellPause = 50 * time.Millisecond
)

// Broker lends the logins of accounts to remotes. It chooses, and the workers lend: no token passes through
// it.
type Broker struct {
	store   *accounts.Store
	workers Workers
	main    func(ctx context.Context, pid uint32) (units.MainProcess, error)
	server  *broker.Server
	changed <-chan struct{} // holds a token when the choice may have changed
	loans   Loans

	metrics *metrics

	mu      sync.Mutex
	clients map[string]client
}

// Workers is the part of the pool that lends.
type Workers interface {
	SharesLogin(worker string) bool
	Connect(worker, line string) (*os.File, error)
	Reported(worker string, limits json.RawMessage)
}

// Loans returns the accounts that are lent to the own codex of a user, none for all; false: none is lent.
type Loans func(user string) (accounts []string, lent bool)

// client is the remembered state of a remote.
type client struct {
	now accounts.Conversation
	// before is the conversation before the current account: it counts if the new one has sent no login.
	before accounts.Conversation
}

// New returns a broker that lends nothing yet.
func New(store *accounts.Store, workers Workers, systemd *units.Manager, loans Loans, changed <-chan struct{},
	logger *slog.Logger) *Broker {
	b := &Broker{
		store: store, workers: workers, main: systemd.MainProcessOf, loans: loans, changed: changed,
		clients: map[string]client{}, metrics: newMetrics(store),
	}
	b.server = &broker.Server{Peer: b.peer, Assign: b.assign, Limits: workers.Reported, Logger: logger}
	return b
}

// peer returns which remote the process is.
func (b *Broker) peer(ctx context.Context, pid int32) (broker.Peer, error) {
	main, err := b.main(ctx, uint32(pid))
	if err != nil && !errors.Is(err, units.ErrNotMain) {
		return broker.Peer{}, fmt.Errorf("systemd does not tell which remote this is: %w", err)
	}
	unit, isService := strings.CutSuffix(main.Unit, ".service")
	if err == nil && isService {
		if name, is := strings.CutPrefix(unit, "codex-remote@"); is && units.ValidRemoteName(name) == nil {
			return broker.Peer{Remote: name, Run: main.Run}, nil
		}
		if name, is := strings.CutPrefix(unit, ownCodex); is && units.ValidUserName(name) == nil {
			return broker.Peer{Remote: unit, Run: main.Run}, nil
		}
	}
	return broker.Peer{}, &broker.Error{Code: broker.NotARemote, Message: "logins are lent to the main process of a " +
		"remote alone, codex-remote@NAME.service, and of a user's own codex, codex-user@NAME.service"}
}

// ownCodex is how the name of a user's own codex begins. No remote has such a name.
const ownCodex = "codex-user@"

// within bounds an ask of a user's own codex by the accounts that are lent to that.
func (b *Broker) within(remote string, ask broker.Ask) (broker.Ask, error) {
	name, is := strings.CutPrefix(remote, ownCodex)
	if !is {
		return ask, nil
	}
	lent, on := b.loans(name)
	if !on {
		return ask, &broker.Error{Code: broker.NoAccount,
			Message: "no account is lent to the codex of " + name + ": root can lend some by codex-proxy here accounts"}
	}
	ask.Accounts = lent
	if len(lent) > 0 && !slices.Contains(lent, ask.Hold) { // a report about that one does not count
		ask.Hold, ask.Have, ask.Refused, ask.ResetsAt, ask.Token = "", false, "", 0, ""
	}
	return ask, nil
}

// Serve answers remotes on the listener, and notifies them of changes, until ctx ends.
func (b *Broker) Serve(ctx context.Context, listener net.Listener) error {
	telling := make(chan struct{})
	go func() { defer close(telling); b.notify(ctx) }()
	err := b.server.Serve(ctx, listener)
	<-telling
	return err
}

func (b *Broker) notify(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		b.server.Tell(b.would)
		select {
		case <-time.After(tellPause):
		case <-ctx.Done():
			return
		}
	}
}
