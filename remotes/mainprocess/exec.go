package mainprocess

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
)

const (
	// stopTimeout bounds the end of codex, which has no bound of its own: cut turns go on at the next start.
	stopTimeout = 5 * time.Second
	// relayLimit is the number of connections to all sockets together: 32 viewers, 32 over the network, and more than
	// people with their clients need on the machine, so that they always find room.
	relayLimit = 128
)

// Exec runs codex by notify.Exec until it ends: the manager decides whether it is ready and alive, and when it rests.
// The standard error of codex goes to stderr. After a request to stop, the error is an exit status of 0, whatever the end
// of codex was.
func Exec(ctx context.Context, notifier *notify.Notifier, logger *slog.Logger, stderr io.Writer, manager *remotes.Manager,
	c notify.Command) (syscall.WaitStatus, error) {
	asked := make(chan os.Signal, 1) // to stop; notify.Exec acts on it
	signal.Notify(asked, unix.SIGTERM)
	defer signal.Stop(asked)
	c.Ready, c.Alive, c.Rest, c.StopTimeout = []notify.Probe{manager.Open}, manager.Alive, manager.Resting(), stopTimeout
	c.Stderr, c.MemoryEvents = journal.NewTracing(stderr, func(string) string { return "" }), notify.MemoryEvents()
	status, err := notify.Exec(ctx, notifier, logger, c)
	if err != nil {
		return status, err
	}
	select {
	case <-asked: // then a kill of codex, which drains without a bound, is no failure
		notifier.Status("Stopped")
		return status, cli.Exit(0, nil)
	default:
		return status, nil
	}
}

// Relay serves the clients at the inherited sockets of that name by the proxy, once codex is ready.
func Relay(name string, p *authz.Proxy, codex *Socket) (*notify.Relay, error) {
	sockets, err := notify.Inherited()
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	listeners, err := sockets.Listeners(name)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	return &notify.Relay{Listeners: listeners, Target: codex.Path(), Limit: relayLimit, Serve: p.Serve}, nil
}
