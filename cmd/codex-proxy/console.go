package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"codex-proxy/console"
	"codex-proxy/console/launch"
	"codex-proxy/console/pipe"
	"codex-proxy/console/proxyorders"
	"codex-proxy/console/server"
	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/doctor"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/thishost"
	"codex-proxy/internal/cli"
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

// keyOrders are the orders of the page for API keys, as codex-proxy keys has them.
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
