package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/accounts"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/units"
)

func accountsCommand() *cobra.Command {
	a := accounts.Accounts{Systemd: units.NewManager(), Settings: config.DefaultPath, Stdin: os.Stdin}
	c := &cobra.Command{
		Use: "accounts", Short: "log workers in, list, add and remove them",
		Long: `
Keeps the workers and their logins. Each worker has an account of its own, which
codex alone uses: login runs codex's own login beside the worker's home, and the
worker takes it over at its start. Neither this command nor the service keeps or
prints a token.

list shows each worker's unit, what it is logged in with, the plan, and how much of
its limits is used up. login logs in the worker NAME (default), and starts it with
that login; a running one finishes its turns in flight first. add makes a worker:
its file, /etc/codex-proxy/workers/NAME.toml, and its unit, which starts when it
has a login. remove stops a worker, when its turns in flight are finished, and takes
both away again. The service is reloaded after add and remove. Run it as root.`,
	}
	socket := controlFlag(c.PersistentFlags())
	do := func(run func(context.Context, string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			a.Stdout, a.Stderr, a.Socket = c.OutOrStdout(), c.ErrOrStderr(), socket()
			defer a.Systemd.Close()
			if os.Geteuid() != 0 {
				return errors.New("only root may do this: try sudo")
			}
			name := accounts.DefaultWorker
			if len(args) > 0 {
				name = args[0]
			}
			if err := units.ValidName(name); err != nil {
				return err
			}
			return run(c.Context(), name)
		}
	}
	list := &cobra.Command{Use: "list", Short: "list the workers, with what they are logged in with", RunE: do(a.List)}
	list.Flags().BoolVar(&a.JSON, "json", false, `{"accounts":[…]}, with the email of each account`)
	login := &cobra.Command{
		Use: "login [NAME]", Short: "log a worker in, and start it", ValidArgsFunction: completeWorkerFiles,
		RunE: do(a.Login),
	}
	login.Flags().BoolVar(&a.APIKey, "with-api-key", false, `log in with an API key from standard input.
Without this codex shows an address and a code for a browser`)
	add := &cobra.Command{Use: "add NAME", Short: "make a worker", RunE: do(a.Add)}
	remove := &cobra.Command{
		Use: "remove NAME", Short: "stop a worker, and remove it", ValidArgsFunction: completeWorkerFiles,
		RunE: do(a.Remove),
	}
	remove.Flags().BoolVar(&a.Purge, "purge", false, "remove the worker's home, too, and with it its login")
	c.AddCommand(list, login, add, remove)
	return c
}
