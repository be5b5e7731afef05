package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/console"
	"codex-proxy/console/keyed"
	"codex-proxy/console/launch"
	"codex-proxy/console/page"
	"codex-proxy/console/pipe"
	"codex-proxy/console/proxyorders"
	"codex-proxy/console/server"
	"codex-proxy/console/verbs"
	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/doctor"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/thishost"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/auth"
	"codex-proxy/remotes/transcript"
	"codex-proxy/units"
	"codex-proxy/workers/control"
)

// consolePort is the port of the page.
const consolePort = 8788

func consoleCommand() *cobra.Command {
	k := console.Console{Port: consolePort, Page: consolePage()}
	c := &cobra.Command{
		Use: "console", Short: "show the service on a page of a browser, until Ctrl-C",
		Long: `
Serves a page on 127.0.0.1 and prints its link, which is valid once and for 60
seconds. The page shows whether the service is ready, workers and accounts with their
quota, API keys and their usage, the last requests, remotes, dependencies and the
checks of codex-proxy doctor, as they change. It drains workers, pauses and switches
accounts, adds and revokes keys, and takes part in remotes: it sends messages, answers
approvals and interrupts turns, unless --read-only is given.

Nothing listens before this command and after its end. From another machine, forward
the port first: ssh -L 8788:127.0.0.1:8788 SERVER. Run it as root: the server of the
page is another process, of the user nobody, which has no right and no network.`,
	}
	flags := c.Flags()
	flags.BoolVar(&k.ReadOnly, "read-only", false, "only show")
	flags.Var(cli.Parsed("PORT", strconv.Itoa(consolePort), func(text string) (err error) {
		port, err := strconv.ParseUint(text, 10, 16)
		k.Port = int(port)
		return err
	}), "port", "the port of 127.0.0.1; 0 takes any")
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		k.Stdout, k.Stderr = c.OutOrStdout(), c.ErrOrStderr()
		client, keys := control.NewClient(socket()), keyOrders{socket: flags.Lookup("socket").Value.String()}
		k.Ask = func(ctx context.Context) error {
			_, _, err := client.Status(ctx)
			return err
		}
		k.Verbs = proxyorders.All(proxyorders.Settings{Client: client, Doctor: examined, AddKey: keys.add,
			RevokeKey: keys.revoke, Remote: remoteOf(k.ReadOnly)})
		return k.Run(c.Context())
	}
	return c
}

// examined is the report of codex-proxy doctor.
func examined(ctx context.Context) (any, error) {
	return doctor.Examine(ctx, thishost.New(versionString())), nil
}

// keyOrders are the orders of the page for API keys: those of codex-proxy keys.
type keyOrders struct{ socket string }

// carryOut carries one out. With --socket the page shows the keys of a service, and does not know its key file.
func (o keyOrders) carryOut(do func(*apikeys.Editor) error) (proxyorders.KeyChange, error) {
	if o.socket != "" {
		return proxyorders.KeyChange{}, fmt.Errorf("a console with --socket changes no keys; "+
			"codex-proxy keys --socket %s --file FILE does, with the key file of that service", o.socket)
	}
	var key, outcome bytes.Buffer
	e := &apikeys.Editor{Stdout: &key, Stderr: &outcome}
	err := e.Locate(config.DefaultPath)
	if err == nil {
		err = do(e)
	}
	text := func(b bytes.Buffer) string { return strings.TrimSpace(b.String()) }
	return proxyorders.KeyChange{Key: text(key), Outcome: text(outcome)}, err
}

func (o keyOrders) add(ctx context.Context, name string, limits map[string]string) (proxyorders.KeyChange, error) {
	return o.carryOut(func(e *apikeys.Editor) error {
		for _, limit := range slices.Sorted(maps.Keys(limits)) {
			e.Limits = append(e.Limits, apikeys.Limit{Name: limit, Value: limits[limit]})
		}
		return e.Add(ctx, name)
	})
}

func (o keyOrders) revoke(ctx context.Context, name string) (proxyorders.KeyChange, error) {
	return o.carryOut(func(e *apikeys.Editor) error { return e.Revoke(ctx, name) })
}

func consoleServeCommand() *cobra.Command {
	return &cobra.Command{
		Use: launch.Command, Short: "serve the page of the console (run by console)",
		Long: `
Serves the page of codex-proxy console, which starts it with a socket for orders; it is
of no use otherwise.`,
		RunE: func(c *cobra.Command, _ []string) error { return console.Serve(c.Context(), os.Stdin) },
	}
}

// consolePage is the page of the service.
func consolePage() server.Page {
	return server.Page{Service: "codex-proxy", Streams: []string{"transcript"},
		Watch: pipe.Order{Verb: "watch", Words: map[string]string{"of": strings.Join(operators.Parts, ",")}}}
}

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
						Origins: origins, Page: consolePage(), Unused: idle})},
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
the console is judged anew. It has the sockets of the daemon, and no right of root. Run by
codex-console-orders.service, which codex-console-orders.socket starts.`,
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
				orders := &keyed.Orders{Secret: key, Ask: client.ConsoleKey, Verbs: ordersOf(client), Logger: logger,
					Origins: func() ([]string, error) {
						console, err := config.LoadConsole(from.path, from.set)
						if err != nil {
							return nil, err
						}
						return console.Origins, nil
					}}
				return &keyed.Server{Orders: orders, Unused: idle}, "Ready", nil
			},
		}.Run(c.Context(), c.ErrOrStderr())
	}
	return c
}

// rootOrders need root, and are for the console of this machine.
var rootOrders = []string{"doctor", "add", "revoke"}

// ordersOf are the orders of a person with a key.
func ordersOf(client *control.Client) func(control.ConsoleKey) map[string]verbs.Verb {
	return func(key control.ConsoleKey) map[string]verbs.Verb {
		all := proxyorders.All(proxyorders.Settings{Client: client, Remote: keyedRemote(key)})
		for _, name := range rootOrders {
			delete(all, name)
		}
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
