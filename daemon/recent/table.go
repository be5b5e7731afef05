package recent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/workers/control"
)

// Table shows the last requests to an operator.
type Table struct {
	Client *control.Client
	Stdout io.Writer
	JSON   bool
	Watch  bool
	Failed bool // only those that have ended in an error
}

// Run shows the requests, the newest last.
func (t Table) Run(ctx context.Context) error {
	l := listing.Listing[Requests]{Stdout: t.Stdout, JSON: t.JSON, Watch: t.Watch, Collect: t.collect,
		Write: writeTable, Changes: func(ctx context.Context, changed func()) error {
			return t.Client.Changes(ctx, []string{"requests"}, changed)
		}}
	return l.Run(ctx)
}

func (t Table) collect(ctx context.Context) (all Requests, err error) {
	if err = t.Client.Get(ctx, "/v1/requests", &all); err == nil && t.Failed {
		all.Requests = slices.DeleteFunc(all.Requests, func(r Request) bool { return !r.Failed() })
	}
	return all, err
}

func writeTable(_ listing.Paper, w io.Writer, all Requests, now time.Time) error {
	if len(all.Requests) == 0 {
		_, err := fmt.Fprintln(w, "no request has ended since the service has started")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENDED\tSTATUS\tOUTCOME\tROUTE\tKEY\tMODEL\tWORKER\tTOOK\tFIRST TEXT\tTOKENS\tID")
	for _, r := range all.Requests {
		fmt.Fprintln(table, strings.Join(row(r, now), "\t"))
	}
	return table.Flush()
}

func row(r Request, now time.Time) []string {
	tokens, text := "-", "-"
	if n := r.InputTokens + r.OutputTokens; n > 0 {
		tokens = fmt.Sprint(n)
	}
	if r.FirstTextMS > 0 {
		text = took(r.FirstTextMS)
	}
	words := []string{r.At.In(now.Location()).Format("15:04:05"), fmt.Sprint(r.Status), r.Outcome, r.Route,
		cmp.Or(r.Key, "-"), cmp.Or(r.Model, "-"), cmp.Or(r.Worker, "-"), took(r.DurationMS), text, tokens, r.ID}
	for i := range words {
		words[i] = listing.Printable(words[i]) // a process before this one, or a server, may have let others in
	}
	return words
}

func took(ms float64) string {
	return (time.Duration(ms) * time.Millisecond).Round(10 * time.Millisecond).String()
}
