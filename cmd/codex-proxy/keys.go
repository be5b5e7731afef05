package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/databasecli"
	"codex-proxy/daemon/usagetable"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
)

func keysCommand() *cobra.Command {
	e := new(apikeys.Editor)
	c := &cobra.Command{
		Use: "keys", Short: "add, list, limit and revoke API keys, or open the API",
		Long: `
Changes the API keys. The file holds hashes only: add shows the key once, on standard
output. A change applies to every request after it, and to a stopped service from its
next start. apply applies a change that was made to the file by hand. With [database] in
config.toml the keys are in the database, and of all its hosts.

Once a key exists, every request needs one, also after the last key is revoked. open
then admits programs on this machine, and no request that a reverse proxy forwards.

A limit is a number or a list, or "none" to take it away. An account has the name of
its worker. A request with a key that may choose names one of the key's accounts in
the header X-Codex-Account, and its answer has the account that served it there. A
file with accounts, choose-account, remotes, unknown-parameters or console is refused
by version 0.1.0: take them away before a downgrade.`,
	}
	flags := c.PersistentFlags()
	flags.Var(cli.Text((*string)(&e.File), "FILE"), "file", `the key file (by default that of config.toml).
The service takes a change of another file over only if --socket is given, too`)
	flags.Var(cli.Text(&e.Socket, "PATH"), "socket", "the daemon's control socket (by default that of config.toml)")
	do := func(run func(ctx context.Context, name string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			e.Stdout, e.Stderr = c.OutOrStdout(), c.ErrOrStderr()
			err := e.Locate(config.DefaultPath)
			if err == nil {
				err = run(c.Context(), strings.Join(args, ""))
			}
			return asRoot(err)
		}
	}
	add := &cobra.Command{Use: "add NAME [OPTION]...", Short: "make a key, and show it", RunE: do(e.Add)}
	set := &cobra.Command{
		Use: "set NAME [OPTION]...", Short: "change the limits of a key", ValidArgsFunction: completeKeys(e),
		RunE: func(c *cobra.Command, args []string) error {
			if len(e.Limits) == 0 {
				return cli.Misuse(c, "a limit is missing, such as --concurrent 4")
			}
			return do(e.Set)(c, args)
		},
	}
	list := &cobra.Command{Use: "list", Short: "list the keys, with their limits", RunE: do(e.List)}
	list.Flags().BoolVar(&e.JSON, "json", false, `one JSON object, with the use of each key if the service runs,
or with [database] the use on all hosts:
  {"count","file","closed","required","keys":[{"name",
    "limits":{"requests_per_minute","tokens_per_minute",
      "tokens_per_day","concurrent","models","accounts",
      "choose_account","remotes","unknown_parameters","console"},
    "used":{"requests_per_minute","tokens_per_minute",
      "tokens_per_day","concurrent","refused"}}]}`)
	limitFlags(add.Flags(), e)
	limitFlags(set.Flags(), e)
	c.AddCommand(add, set,
		&cobra.Command{
			Use: "revoke NAME", Short: "remove a key", ValidArgsFunction: completeKeys(e), RunE: do(e.Revoke),
		},
		&cobra.Command{Use: "open", Short: "admit programs on this machine without a key", RunE: do(e.Open)},
		list,
		&cobra.Command{Use: "apply", Short: "apply a change that was made to the file by hand", RunE: do(e.Apply)},
	)
	return c
}

// limitFlags are the options of auth.LimitNames.
func limitFlags(flags *pflag.FlagSet, e *apikeys.Editor) {
	for _, limit := range []struct{ name, word, text string }{
		{auth.RequestsPerMinute, "N", "requests for a turn"},
		{auth.TokensPerMinute, "N", `prompt and completion together.
One request may exceed it; the excess delays the next`},
		{auth.TokensPerDay, "N", "the same, of a day in UTC"},
		{auth.Concurrent, "N", "requests at the same time"},
		{auth.Models, "LIST", `the only models, by the names that clients use, with a comma between them.
One * in a name stands for any characters`},
		{auth.Accounts, "LIST", "the only accounts, by the names of their workers, with a comma between them"},
		{auth.Remotes, "LIST", `the remotes that it may attach to, with a comma between them; NAME:viewer only watches.
To attach to NAME is to have a shell of the remote's user within its unit.
Without it, a key reaches no remote`},
		{auth.ChooseAccount, "yes|no", "whether requests may name one of the accounts in X-Codex-Account"},
		{auth.UnknownParameters, "refuse|ignore",
			`whether requests with unknown parameters are refused, or answered without them;
none takes the setting unknown_parameters of config.toml`},
		{auth.Console, "read|operate", `the right to the console from other machines (codex-console.service):
read shows the service, operate gives orders, too; both
reach the remotes of --remotes alone. A person who only reads
needs NAME:viewer there, as the key is one of the API, too.
Without it, a key opens no console`},
	} {
		flags.Var(cli.Parsed(limit.word, "", func(value string) error {
			e.Limits = append(e.Limits, apikeys.Limit{Name: limit.name, Value: value})
			return new(auth.Limits).Set(limit.name, value)
		}), limit.name, limit.text)
	}
	flags.Lookup(auth.ChooseAccount).NoOptDefVal = "yes"
}

func databaseCommand() *cobra.Command {
	d := &databasecli.Database{Version: versionString()}
	c := &cobra.Command{
		Use: "database", Short: "share API keys and responses with other hosts, through PostgreSQL",
		Long: `
Keeps the database that [database] in config.toml names: there several hosts have the
same API keys, with their limits, one usage, and the same stored responses and
conversations. The commands read the file, also
before the service does, and the password in /etc/codex-proxy/database-password. Run
them as root.

init prints the SQL that makes the database with two roles, the owner and the one of the
services, and makes the password. migrate, on one host, makes the tables, and gives the
second role its rights; an upgrade may ask for it again. join, on each host, adds its
keys, and the host; a second join of a host adds no key. Then systemctl restart
codex-proxy, on each host.

leave writes the keys of the database into the file of this host, removes the host, and
empties the files of the passwords; leave HOST removes one that is gone. check asks the
database over the network, by both roles, and the running service for its state.`,
	}
	do := func(run func(ctx context.Context, name string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			d.Stdout, d.Stderr = c.OutOrStdout(), c.ErrOrStderr()
			err := d.Locate(config.DefaultPath)
			if err == nil {
				err = run(c.Context(), strings.Join(args, ""))
			}
			return asRoot(err)
		}
	}
	hosts := &cobra.Command{Use: "hosts", Short: "list the hosts, with their leases", RunE: do(d.Hosts)}
	hosts.Flags().BoolVar(&d.JSON, "json", false, `one JSON array:
  [{"name","version","joined","until","alive","shares"}]`)
	c.AddCommand(
		&cobra.Command{Use: "init", Short: "print the SQL for the role and the database", RunE: do(d.Init)},
		&cobra.Command{Use: "migrate", Short: "make or update the tables", RunE: do(d.Migrate)},
		&cobra.Command{Use: "join", Short: "add this host, with its keys", RunE: do(d.Join)},
		&cobra.Command{Use: "leave [HOST]", Short: "remove this host, or another one", RunE: do(d.Leave)},
		&cobra.Command{Use: "check", Short: "ask the database, and the service for its state", RunE: do(d.Check)},
		hosts,
	)
	return c
}

func databasePrepareCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "database-prepare", Short: "let it reach the database (codex-proxy-database.service)",
		Long: `
Resolves the name of the server that [database] names, lets
codex-proxy-database.service reach its addresses, and nothing else, until the next
boot, and writes them into ` + paths.DatabaseRelay + `. ExecStartPre of that
unit, as root.`,
	}
	from.register(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		database, err := config.LoadDatabase(from.path, from.set)
		if err != nil {
			return cli.Exit(cli.Config, err)
		}
		if database.Address.IsZero() {
			return cli.Exit(cli.Config, fmt.Errorf("%s names no database", from.path))
		}
		return databasecli.PrepareRelay(c.Context(), database)
	}
	return c
}

// leastRelay is longer than the daemon waits between two attempts.
const leastRelay = 4 * time.Second

func databaseRelayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "database-relay ADDRESS:PORT...",
		Short: "carry connections to the database (codex-proxy-database.service)",
		Long: `
Carries connections of codex-proxy-database.socket to the first address that
answers. It ends when there is no connection any more, or when no address answers:
the next start resolves the name of the server anew. Run by
codex-proxy-database.service.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, servers []string) error {
			sockets, err := notify.Inherited()
			if err != nil {
				return err
			}
			listeners, err := sockets.Listeners("database")
			if err != nil {
				return err
			}
			l, ok := listeners[0].(*net.UnixListener)
			if !ok {
				return errors.New("codex-proxy-database.socket must be a unix socket")
			}
			return (&databasecli.Relay{Servers: servers, Least: leastRelay}).Run(l)
		},
	}
}

// defaultUsage is where codex-proxy.service keeps it (StateDirectory= there).
const defaultUsage = paths.StateDir + "/" + usage.FileName

const defaultSince = 30 // days

func usageCommand() *cobra.Command {
	now := time.Now()
	since, by, database := usagetable.FirstDay(defaultSince, now), []string{"key", "model"}, defaultUsage
	c := &cobra.Command{
		Use: "usage", Short: "show the usage of API keys",
		Long: `
Shows what API keys have used: requests for which a turn was begun, and the tokens
that the workers reported. Cached tokens are part of the input, reasoning tokens
part of the output. What has happened in the last seconds may be missing. An account
has the name of its worker; usage that version 0.1.0 counted is of an unknown one.
With [database] in config.toml it is the usage of all hosts.`,
	}
	flags := c.Flags()
	flags.Var(cli.Parsed("DAY", "", func(text string) (err error) {
		since, err = usagetable.ParseSince(text, now)
		return err
	}), "since", "the first day, in UTC: 2026-01-31, or 30d for 30 days, which\nis the default; 1d is today")
	flags.Var(cli.Parsed("LIST", "key,model", func(text string) (err error) {
		by, err = usagetable.ParseBy(text)
		return err
	}), "by", "what to sum up by: some of hour, day, key, model, account.\nHours are kept for 7 days")
	asJSON := flags.Bool("json", false, "one JSON object")
	flags.Var(cli.Text(&database, "FILE"), "database", "the database of one host")
	cli.Complete(c, "by", usage.Groups...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var sums []usage.Sum
		var err error
		if settings, shared := databasecli.Shared(config.DefaultPath); shared && !flags.Changed("database") {
			if sums, err = databasecli.Usage(c.Context(), settings, since, by); err != nil {
				err = fmt.Errorf("%w; --database=%s has the usage of this host", err, defaultUsage)
			}
		} else {
			sums, err = usage.Read(c.Context(), database, since, by)
		}
		switch {
		case err != nil:
			return asRoot(err)
		case *asJSON:
			return usagetable.WriteJSON(c.OutOrStdout(), since, by, sums)
		default:
			return usagetable.Write(c.OutOrStdout(), by, sums)
		}
	}
	return c
}
