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

// Codex runs codex and decides about it.
type Codex struct {
	Notifier *notify.Notifier
	Logger   *slog.Logger
	Stderr   io.Writer
	Manager  *remotes.Manager // decides whether codex is ready and alive, and when it rests
	// End is the exit status of the main process after the end of codex.
	End func(syscall.WaitStatus, *remotes.Manager) error
}

// Exec runs codex by notify.Exec until it ends. After a request to stop it returns nil, whatever the end of codex was.
func (x Codex) Exec(ctx context.Context, c notify.Command) error {
	asked := make(chan os.Signal, 1) // to stop; notify.Exec acts on it
	signal.Notify(asked, unix.SIGTERM)
	defer signal.Stop(asked)
	c.Ready, c.Alive, c.Rest = []notify.Probe{x.Manager.Open}, x.Manager.Alive, x.Manager.Resting()
	c.StopTimeout, c.MemoryEvents = stopTimeout, notify.MemoryEvents()
	c.Stderr = journal.NewTracing(x.Stderr, func(string) string { return "" })
	status, err := notify.Exec(ctx, x.Notifier, x.Logger, c)
	if err != nil {
		return err
	}
	select {
	case <-asked: // then a kill of codex, which drains without a bound, is no failure
		x.Notifier.Status("Stopped")
		return nil
	default:
		return x.End(status, x.Manager)
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
