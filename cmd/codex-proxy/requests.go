package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/daemon/recent"
	"codex-proxy/workers/control"
)

func requestsCommand() *cobra.Command {
	t := recent.Table{}
	c := &cobra.Command{
		Use: "requests", Short: "list the last requests of the API",
		Long: `
Lists the last 500 requests that have ended, the newest last: status, outcome, key,
model, worker, times and tokens, and no content. The service keeps them in memory,
also over a reload. The journal has older ones, and codex's text of an error:
journalctl CODEX_REQUEST_ID=ID. Run it as root.`,
	}
	flags := c.Flags()
	flags.BoolVar(&t.Failed, "failed", false, "only those that have ended in an error")
	flags.BoolVar(&t.JSON, "json", false, `one JSON object, with the fields of the journal:
  {"requests":[{"number","at","request_id","response_id",
    "method","route","status","outcome","key","model",
    "worker","thread_id","trace_id","stream","attempts",
    "duration_ms","queued_ms","ttfb_ms","first_text_ms",
    "input_tokens","output_tokens"}]}`)
	flags.BoolVar(&t.Watch, "watch", false, "again after every change, until Ctrl-C")
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		t.Client, t.Stdout = control.NewClient(socket()), c.OutOrStdout()
		return t.Run(c.Context())
	}
	return c
}
