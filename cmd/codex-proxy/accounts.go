package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/daemon/config"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/accountscli"
)

// accountsJSON is the text of --json, which two commands have.
const accountsJSON = `JSON. Of list one object, with the email of each account;
of login one with the address ("url") and the code ("code"),
and another one after the login`

func accountsCommand() *cobra.Command {
	a := accountscli.Accounts{Systemd: units.NewManager(), Workers: configuredWorkers, Policy: configuredPolicy,
		Stdin: os.Stdin}
	c := &cobra.Command{
		Use: "accounts", Short: "log workers in, list, add, remove, switch and pause them",
		Long: `
Keeps the workers and their logins. Each worker has an account of its own, which
codex alone uses: login runs codex's own login beside the worker's home, and the
worker takes it over at its start. Neither this command nor the service keeps or
prints a token.

list shows for each account its state, where and when that was learned, each limit
with its use and reset, the workers with the same account, the login and the unit,
and what is planned and why. While the service is stopped, it shows what the service
saved. login logs in the worker NAME (default), and starts it with
that login; a running one finishes its turns in flight first. add makes a worker:
its file, /etc/codex-proxy/workers/NAME.toml, and its unit, which starts when it
has a login. remove stops a worker, when its turns in flight are finished, and takes
both away again. The service is reloaded after add and remove.

switch makes an account the one in use, with rotation = "ordered" in config.toml;
conversations follow with their next turn. pause keeps new turns from an account
until resume; turns in flight go on. A pause is of the account and survives restarts
of the service, whereas codex-proxy drain is of the worker and ends with the service.
Run it as root.`,
	}
	socket := controlFlag(c.PersistentFlags())
	do := func(run func(context.Context, string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			a.Stdout, a.Stderr, a.Socket = c.OutOrStdout(), c.ErrOrStderr(), socket()
			defer a.Systemd.Close()
			if os.Geteuid() != 0 {
				return errors.New("only root may do this: try sudo")
			}
			name := accountscli.DefaultWorker
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
	list.Flags().BoolVar(&a.JSON, "json", false, accountsJSON)
	list.Flags().BoolVar(&a.Watch, "watch", false, "again after every change, until Ctrl-C")
	login := &cobra.Command{
		Use: "login [NAME]", Short: "log a worker in, and start it", ValidArgsFunction: completeWorkerFiles,
		RunE: do(a.Login),
	}
	login.Flags().BoolVar(&a.APIKey, "with-api-key", false, `log in with an API key from standard input.
Without this codex shows an address and a code for a browser`)
	login.Flags().BoolVar(&a.JSON, "json", false, accountsJSON)
	add := &cobra.Command{Use: "add NAME", Short: "make a worker", RunE: do(a.Add)}
	remove := &cobra.Command{
		Use: "remove NAME", Short: "stop a worker, and remove it", ValidArgsFunction: completeWorkerFiles,
		RunE: do(a.Remove),
	}
	remove.Flags().BoolVar(&a.Purge, "purge", false, "remove the worker's home, too, and with it its login")
	order := func(use, short string, run func(context.Context, string) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, ValidArgsFunction: completeWorkers, RunE: do(run)}
	}
	c.AddCommand(list, login, add, remove,
		order("switch NAME", "make an account the one in use", a.Switch),
		order("pause NAME", "keep new turns from an account", a.Pause),
		order("resume NAME", "admit turns to an account again", a.Resume),
	)
	return c
}

func configuredWorkers() ([]string, error) {
	cfg, err := config.Load(config.DefaultPath, nil)
	if err != nil {
		return nil, err
	}
	return cfg.Workers, nil
}

func configuredPolicy() (accounts.Policy, error) {
	places, err := config.LoadPlaces(config.DefaultPath)
	return places.Policy, err
}
