package accounts

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/proxy/workers"
)

// loginWords are what people read for the words of the JSON.
var loginWords = map[string]string{
	string(codexhome.ChatGPT): "ChatGPT", string(codexhome.APIKey): "API key", string(codexhome.OtherLogin): "other",
	loginNotNeeded: "not needed", loginMissing: "needs login", loginUnknown: "unknown",
}

// writeAccounts is what `codex-proxy accounts list` shows at now.
func writeAccounts(w io.Writer, rows []accountRow, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tLOGIN\tPLAN\tLIMITS")
	for _, r := range rows {
		state := "unknown"
		if r.ActiveState != "" {
			state = r.ActiveState + " (" + r.SubState + ")"
		}
		row := []string{r.Name, state, loginWords[r.Login], cmp.Or(r.Plan, "-"), limitsLine(r.Limits, now)}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Error != "" {
			fmt.Fprintf(w, "\n%s: %s\n", r.Name, r.Error)
		}
	}
	return nil
}

// limitsLine is "5h 42 % used, resets in 1h12m; 7d …".
func limitsLine(limits []workers.Limit, now time.Time) string {
	var words []string
	for _, l := range limits {
		word := fmt.Sprintf("%s %.0f %% used", l.Window, 100*l.UsedRatio)
		if !l.ResetsAt.IsZero() {
			word += ", resets in " + left(l.ResetsAt.Sub(now))
		}
		words = append(words, word)
	}
	return cmp.Or(strings.Join(words, "; "), "-")
}

// left is a time to come, coarser the longer it is.
func left(d time.Duration) string {
	switch minutes := int(max(0, d).Minutes()); {
	case minutes < 60:
		return fmt.Sprintf("%dm", minutes)
	case minutes < 48*60:
		return fmt.Sprintf("%dh%dm", minutes/60, minutes%60)
	default:
		return fmt.Sprintf("%d days", minutes/(24*60))
	}
}
