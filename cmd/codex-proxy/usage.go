package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/proxy/usage"
)

// defaultUsage is where codex-proxy.service keeps it (StateDirectory= there).
const defaultUsage = paths.StateDir + "/" + usage.FileName

const defaultSince = 30 // days

func usageCommand() *cobra.Command {
	now := time.Now()
	since, by, database := firstOf(defaultSince, now), []string{"key", "model"}, defaultUsage
	c := &cobra.Command{
		Use: "usage", Short: "show what API keys have used",
		Long: `
Shows what API keys have used: requests for which a turn was begun, and the tokens
that the workers reported. Cached tokens are part of the input, reasoning tokens
part of the output. What has happened in the last second may be missing.`,
	}
	flags := c.Flags()
	flags.Var(cli.Parsed("DAY", "", func(text string) (err error) { since, err = parseSince(text, now); return err }),
		"since", "the first day, in UTC: 2026-01-31, or 30d for 30 days, which\nis the default; 1d is today")
	flags.Var(cli.Parsed("LIST", "key,model", func(text string) (err error) { by, err = parseBy(text); return err }),
		"by", "what to sum up by: some of day, key, model")
	asJSON := flags.Bool("json", false, "one JSON object")
	flags.Var(cli.Text(&database, "FILE"), "database", "the database")
	c.RunE = func(c *cobra.Command, _ []string) error {
		sums, err := usage.Read(c.Context(), database, since, by)
		switch {
		case err != nil:
			return asRoot(err)
		case *asJSON:
			return writeUsageJSON(c.OutOrStdout(), since, by, sums)
		default:
			return writeUsage(c.OutOrStdout(), by, sums)
		}
	}
	return c
}

// firstOf is the first of so many days. They are of UTC: in another zone one may
// have 23 hours.
func firstOf(days int, now time.Time) time.Time { return now.UTC().AddDate(0, 0, 1-days) }

func parseSince(text string, now time.Time) (time.Time, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= 10_000 {
			return firstOf(n, now), nil
		}
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return day, fmt.Errorf("%q is neither a day such as 2026-01-31 nor a number of days such as 7d", text)
	}
	return day, nil
}

func parseBy(text string) ([]string, error) {
	by := strings.Split(text, ",")
	for _, name := range by {
		if !slices.Contains(usage.Groups, name) {
			return nil, fmt.Errorf("%q is none of %s", name, strings.Join(usage.Groups, ", "))
		}
	}
	return by, nil
}

func writeUsageJSON(w io.Writer, since time.Time, by []string, sums []usage.Sum) error {
	if sums == nil {
		sums = []usage.Sum{}
	}
	return json.NewEncoder(w).Encode(struct {
		Since string      `json:"since"`
		By    []string    `json:"by"`
		Usage []usage.Sum `json:"usage"`
	}{since.UTC().Format(time.DateOnly), by, sums})
}

func writeUsage(w io.Writer, by []string, sums []usage.Sum) error {
	if len(sums) == 0 {
		_, err := fmt.Fprintln(w, "nothing was used")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var head []string
	for _, name := range usage.Groups {
		if slices.Contains(by, name) {
			head = append(head, strings.ToUpper(name))
		}
	}
	fmt.Fprintln(table, strings.Join(append(head, "REQUESTS", "INPUT", "CACHED", "OUTPUT", "REASONING"), "\t"))
	for _, u := range sums {
		names := map[string]string{"day": u.Day, "key": either(u.Key == "", "(none)", u.Key), "model": u.Model}
		var row []string
		for _, name := range head {
			row = append(row, names[strings.ToLower(name)])
		}
		for _, n := range []int64{u.Requests, u.InputTokens, u.CachedTokens, u.OutputTokens, u.ReasoningTokens} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
