package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/probes"
)

// writeRemotes writes the table of the remotes, and the sentences of those that are down. Without a remote it writes
// nothing.
func writeRemotes(w io.Writer, all []probes.Remote, now time.Time) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REMOTE\tSTATE\tREADY\tWHY\tSINCE\tACCOUNT\tATTACHED\tTURN SINCE\tCONTINUED\tRESTARTS\tLAST EXIT")
	for _, r := range all {
		fmt.Fprintln(table, strings.Join(remoteRow(r, now), "\t"))
	}
	_ = table.Flush() // w is a buffer
	for _, r := range all {
		if text := r.Sentence(); text != "" {
			fmt.Fprintf(w, "\n%s\n", text)
		}
	}
}

func remoteRow(r probes.Remote, now time.Time) []string {
	account, attached, turn, continued := "-", "-", "-", "-"
	if u := r.Use; u != nil {
		if u.Account != "" {
			account = u.Account
		}
		if attached = fmt.Sprint(u.Owners); u.Viewers > 0 {
			attached += fmt.Sprintf(" and %d viewing", u.Viewers)
		}
		if !u.TurnSince.IsZero() {
			turn = age(u.TurnSince, now)
		}
		if !u.AloneSince.IsZero() {
			turn += ", waits for a person"
		}
		continued = fmt.Sprint(u.Continued)
	}
	return []string{
		r.Name, unitState(r.ActiveState, r.SubState), yesNo(r.Ready), string(r.Reason), age(r.Since,
			now), account, attached,
		turn, continued, fmt.Sprint(r.RestartsTotal), lastExit(r.LastExit, now),
	}
}
