package main

import (
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/daemon/usagetable"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/usage"
)

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
part of the output. What has happened in the last second may be missing. An account
has the name of its worker; usage that version 0.1.0 counted is of an unknown one.`,
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
	flags.Var(cli.Text(&database, "FILE"), "database", "the database")
	cli.Complete(c, "by", usage.Groups...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		sums, err := usage.Read(c.Context(), database, since, by)
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
