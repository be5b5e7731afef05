// Package usagetable shows the usage of API keys.
package usagetable

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/proxy/usage"
)

// FirstDay returns the first of days that end today, in UTC: in another zone a day may
// have 23 hours.
func FirstDay(days int, now time.Time) time.Time { return now.UTC().AddDate(0, 0, 1-days) }

// ParseSince returns the first day of a period: of a date, or of a number of days.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= 10_000 {
			return FirstDay(n, now), nil
		}
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return day, fmt.Errorf("%q is neither a day such as 2026-01-31 nor a number of days such as 7d", text)
	}
	return day, nil
}

// ParseBy returns the names in a list of usage.Groups.
func ParseBy(text string) ([]string, error) {
	by := strings.Split(text, ",")
	for _, name := range by {
		if !slices.Contains(usage.Groups, name) {
			return nil, fmt.Errorf("%q is none of %s", name, strings.Join(usage.Groups, ", "))
		}
	}
	return by, nil
}

// Table is the usage as one JSON object.
type Table struct {
	Since string      `json:"since"` // the first day, in UTC
	By    []string    `json:"by"`
	Usage []usage.Sum `json:"usage"`
}

// TableOf returns the sums as a table.
func TableOf(since time.Time, by []string, sums []usage.Sum) Table {
	if sums == nil {
		sums = []usage.Sum{}
	}
	return Table{since.UTC().Format(time.DateOnly), by, sums}
}

// WriteJSON writes the sums as one JSON object.
func WriteJSON(w io.Writer, since time.Time, by []string, sums []usage.Sum) error {
	return json.NewEncoder(w).Encode(TableOf(since, by, sums))
}

// Write writes the sums as a table.
func Write(w io.Writer, by []string, sums []usage.Sum) error {
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
		names := map[string]string{
			"hour": u.Hour, "day": u.Day, "key": cmp.Or(u.Key, "(none)"), "model": u.Model, "account": cmp.Or(u.Account, "(unknown)"),
		}
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
