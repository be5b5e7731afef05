package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/console/deliver"
	"codex-proxy/console/keyed"
	"codex-proxy/console/page"
	"codex-proxy/console/proxyorders"
	"codex-proxy/console/push"
	"codex-proxy/console/server"
	"codex-proxy/console/verbs"
	"codex-proxy/console/webpush"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/auth"
	"codex-proxy/remotes/remotenotify"
	"codex-proxy/remotes/transcript"
	"codex-proxy/units"
	"codex-proxy/workers/control"
)

func consoleServerCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "console-server", Short: "serve the page for other machines (codex-console.service)",
		Long: `
Serves the page of the console to people with an API key that has a right to it, at the
addresses that [console] of config.toml names. It has no right and no network of its own:
codex-console-orders.service judges each key and each order. Run by
codex-console.service, which codex-console.socket starts; it ends after a while without
a connection.`,
	}
	idle := socketservice.IdleTime
	c.Flags().Var(cli.Duration(&idle), "exit-idle-time", "how long it waits for the next connection")
	c.RunE = func(c *cobra.Command, _ []string) error {
		orders := keyed.NewConnection(paths.ConsoleSocket, "codex-proxy")
		defer orders.Close()
		return socketservice.Service{
			Command: c.CommandPath(), Socket: "console", Leaving: "Ending",
			Load: func(*slog.Logger) (socketservice.Server, string, error) {
				origins, err := orders.Origins(c.Context())
				if err != nil {
					return nil, "", err
				}
				return pageServer{server.New(server.Settings{Orders: orders, Files: page.Files(), Access: orders,
						Origins: origins, Page: consolePage(), Unused: idle, Answer: orders.Answer})},
					"Ready: the page is at " + strings.Join(origins, ", "), nil
			},
		}.Run(c.Context(), c.ErrOrStderr())
	}
	return c
}

// pageServer is a socketservice.Server.
type pageServer struct{ *server.Server }

// Run implements socketservice.Server.
func (p pageServer) Run(ctx context.Context, l net.Listener) error { return p.Serve(ctx, l) }

func consoleOrdersCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "console-orders", Short: "carry out the orders of that page (codex-console-orders.service)",
		Long: `
Carries out the orders of the page for other machines, each for an API key whose right to
the console is judged anew, and sends the notices of remotes with push = true to the
browsers of these people. It has the sockets of the daemon, and no right of root. Run by
codex-console-orders.service, which codex-console-orders.socket and
codex-console-push.socket start.`,
	}
	from.register(c.Flags())
	idle, secret := socketservice.IdleTime, paths.ConsoleSecret
	c.Flags().Var(cli.Duration(&idle), "exit-idle-time", "how long it waits for the next connection")
	c.Flags().Var(cli.Text(&secret, "FILE"), "secret", "the file with the secret of sessions")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return socketservice.Service{
			Command: c.CommandPath(), Socket: "console-orders", Leaving: "Ending",
			Load: func(logger *slog.Logger) (socketservice.Server, string, error) {
				key, err := keyed.Secret(secret)
				if err != nil {
					return nil, "", fmt.Errorf("cannot read the secret of sessions: %w", err)
				}
				client := control.NewClient(controlSocket(from.path))
				pusher := newPusher(client, filepath.Dir(secret), &from, logger)
				orders := &keyed.Orders{Secret: key, Ask: client.ConsoleKey, Verbs: ordersOf(client, pusher),
					Logger: logger, Origins: from.consoleOrigins, Answer: pusher.Answer}
				return ordersServer{&keyed.Server{Orders: orders, Unused: idle, Notice: noticesFor(client, pusher, logger)},
					pusher}, "Ready", nil
			},
		}.Run(c.Context(), c.ErrOrStderr())
	}
	return c
}

// ordersServer ends after the messages of its pusher.
type ordersServer struct {
	*keyed.Server
	pusher *push.Pusher
}

// Run implements socketservice.Server.
func (s ordersServer) Run(ctx context.Context, l net.Listener) error {
	defer s.pusher.Wait()
	return s.Server.Run(ctx, l)
}

// rootOrders need root, and are for the console of this machine.
var rootOrders = []string{"doctor", "add", "revoke"}

// ordersOf are the orders of a person with a key.
func ordersOf(client *control.Client, pusher *push.Pusher) func(control.ConsoleKey) map[string]verbs.Verb {
	return func(key control.ConsoleKey) map[string]verbs.Verb {
		all := proxyorders.All(proxyorders.Settings{Client: client, Remote: keyedRemote(key)})
		for _, name := range rootOrders {
			delete(all, name)
		}
		maps.Copy(all, pusher.Verbs(key))
		return all
	}
}

// keyedRemote is a remote for a person with a key: one that the key may attach to.
func keyedRemote(key control.ConsoleKey) func(string) (proxyorders.Remote, error) {
	limits := auth.Limits{Remotes: key.Remotes}
	return func(name string) (proxyorders.Remote, error) {
		if err := units.ValidRemoteName(name); err != nil {
			return nil, err
		}
		viewer, may := limits.Remote(name)
		if !may {
			return nil, fmt.Errorf("the key %[1]s may not attach to the remote %[2]s; the operator allows it: "+
				"codex-proxy keys set %[1]s --remotes=%[2]s", key.Name, name)
		}
		socket := paths.RemoteNetworkSocket(name)
		of := person{transcript.Remote{Name: name, Owners: socket, Viewers: socket, Key: key.Name,
			Version: versionString(), ReadOnly: viewer || key.Right != auth.Operate}}
		if viewer {
			return watched{of}, nil
		}
		return of, nil
	}
}

// watched is a remote that a key only watches.
type watched struct{ person }

var errWatched = fmt.Errorf("the key only watches this remote: its --remotes has NAME:viewer")

// Send implements proxyorders.Remote.
func (watched) Send(context.Context, string, string) (string, error) { return "", errWatched }

// Approve implements proxyorders.Remote.
func (watched) Approve(context.Context, string, string, string) error { return errWatched }

// Interrupt implements proxyorders.Remote.
func (watched) Interrupt(context.Context, string) error { return errWatched }

// errNoPushes is for people with an API key: it names no path of this machine.
var errNoPushes = errors.New("there are no notifications: the operator sees why in the journal of " +
	"codex-console-orders.service")

// newPusher has its files in dir, with the secret of sessions. A fault of them is no fault of the rest of the page.
func newPusher(client *control.Client, dir string, from *configFlags, logger *slog.Logger) *push.Pusher {
	var store *push.Store
	key, err := webpush.LoadKey(filepath.Join(dir, "push-key"))
	if err == nil {
		store, err = push.OpenStore(filepath.Join(dir, "push.json"), key.Public())
	}
	if err != nil {
		logger.Error("there are no notifications of the console", "error", err)
		return push.New(push.Settings{None: errNoPushes})
	}
	origins, _ := from.consoleOrigins() // a page without an address has no browsers
	return push.New(push.Settings{Store: store, Key: key, Contact: contact(origins), Ask: client.ConsoleKey,
		Remote: pushRemote, Deliver: deliver.NewClient(paths.FetchSocket).Deliver,
		Count: func(ctx context.Context, outcome string) {
			_ = client.CountPush(ctx, outcome) // a daemon that starts counts from 0
		}, Logger: logger})
}

// consoleOrigins are the addresses of the page.
func (c *configFlags) consoleOrigins() ([]string, error) {
	console, err := config.LoadConsole(c.path, c.set)
	if err != nil {
		return nil, err
	}
	return console.Origins, nil
}

// contact is the address that push services see.
func contact(origins []string) string {
	for _, origin := range origins {
		if strings.HasPrefix(origin, "https://") {
			return origin
		}
	}
	return ""
}

// noticesFor takes the notices of remotes, each on a connection of its own, from the main process of that remote alone. It
// is finished also after the end of its context: the sender does not wait, and nobody sends the notice again.
func noticesFor(client *control.Client, pusher *push.Pusher, logger *slog.Logger) func(context.Context, net.Conn) {
	return func(ctx context.Context, conn net.Conn) {
		ctx = context.WithoutCancel(ctx)
		n, err := remotenotify.Receive(conn)
		var pid int32
		if err == nil {
			pid, err = remotenotify.Sender(conn)
		}
		if err != nil {
			logger.Warn("a notice for browsers is refused", "error", err)
			return
		}
		sender, err := senderOf(ctx, client, pid)
		switch {
		case errors.Is(err, control.ErrNoRemote):
			logger.Warn("a notice for browsers is refused", "error", err)
		case err != nil:
			logger.Warn("nobody knows whose notice for browsers this is", "error", err)
		case sender != n.Remote:
			logger.Warn("a notice for browsers is refused", "error", "it is of another remote, "+sender)
		default:
			pusher.Notice(ctx, push.Notice{Remote: n.Remote, Event: n.Event, Thread: n.Thread, Status: n.Status, Text: n.Text})
		}
	}
}

const (
	// restartBound is how long a daemon that restarts may be away.
	restartBound = 30 * time.Second
	restartPause = 200 * time.Millisecond
)

// senderOf is the remote with that main process. It asks again while the daemon does not answer.
func senderOf(ctx context.Context, client *control.Client, pid int32) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, restartBound)
	defer cancel()
	for {
		name, err = client.RemoteOf(ctx, pid)
		if err == nil || errors.Is(err, control.ErrNoRemote) {
			return name, err
		}
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
			return "", err
		}
	}
}

// pushRemote is a remote for a person with a key: nil if the person only watches.
func pushRemote(key control.ConsoleKey, name string) (push.Remote, error) {
	of, err := keyedRemote(key)(name)
	if err != nil {
		return nil, err
	}
	if owner, is := of.(person); is && key.Right == auth.Operate {
		return asked{owner}, nil
	}
	return nil, nil
}

// asked is a push.Remote.
type asked struct{ person }

// Asked implements push.Remote.
func (a asked) Asked(ctx context.Context, thread string) (all []push.Question, err error) {
	questions, err := a.Remote.Asked(ctx, thread)
	for _, q := range questions {
		all = append(all, push.Question{ID: q.ID, Kind: q.Kind, Text: q.Text, Directory: q.Directory, Decisions: q.Decisions})
	}
	return all, err
}
