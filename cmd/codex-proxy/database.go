package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/daemon/config"
	"codex-proxy/daemon/databasecli"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/units/networks"
)

func databaseCommand() *cobra.Command {
	d := &databasecli.Database{Version: versionString()}
	c := &cobra.Command{
		Use: "database", Short: "share API keys with other hosts, through PostgreSQL",
		Long: `
Keeps the database that [database] in config.toml names: there several hosts have the
same API keys. The commands read the file, also before the service does, and the
password in /etc/codex-proxy/database-password. Run them as root:

1. init prints the SQL that makes the role and the database, and makes the password.
2. migrate, on one host, makes the tables. An upgrade may ask for it again.
3. join, on each host, adds its keys, and the host.
4. systemctl restart codex-proxy, on each host.

leave writes the keys of the database into the file of this host, and removes the
host; leave HOST removes one that is gone. check asks the database over the network,
and the running service for its state.`,
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
	hosts := &cobra.Command{Use: "hosts", Short: "list the hosts", RunE: do(d.Hosts)}
	hosts.Flags().BoolVar(&d.JSON, "json", false, `one JSON array:
  [{"name","version","joined","until","alive"}]`)
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

const (
	databaseUnit = "codex-proxy-database.service"
	// resolveBound is for the name of the server.
	resolveBound = 5 * time.Second
)

func databasePrepareCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "database-prepare", Short: "let it reach the database (codex-proxy-database.service)",
		Long: `
Resolves the name of the server that [database] names, lets
codex-proxy-database.service reach that address, and nothing else, until the next
boot, and writes the address into ` + paths.DatabaseRelay + `. ExecStartPre of that
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
		return prepareRelay(c.Context(), database)
	}
	return c
}

func prepareRelay(ctx context.Context, database config.Database) error {
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", database.Address.Host())
	if err != nil {
		return fmt.Errorf("cannot find the database: %w", err)
	}
	ip := found[0].Unmap()
	if err := os.MkdirAll(paths.DatabaseRelay, 0o755); err != nil {
		return err
	}
	line := "SERVER=" + net.JoinHostPort(ip.String(), database.Address.Port()) + "\n"
	if err := os.WriteFile(filepath.Join(paths.DatabaseRelay, "relay"), []byte(line), 0o644); err != nil {
		return err
	}
	return networks.Allow(ctx, databaseUnit, []netip.Prefix{netip.PrefixFrom(ip.WithZone(""), ip.BitLen())})
}
