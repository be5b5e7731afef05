package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/probes"
)

// unitTable is the table of the dependencies or of the remotes, and the sentences about those that are down.
type unitTable struct {
	header    string
	rows      [][]string
	sentences []string
}

// write writes nothing without a row.
func (t unitTable) write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, t.header)
	for _, row := range t.rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // w is a buffer
	for _, text := range t.sentences {
		fmt.Fprintf(w, "\n%s\n", text)
	}
}

// writeDependencies leaves a sentence out if details has it already.
func writeDependencies(w io.Writer, all []probes.Dependency, details string, now time.Time) {
	t := unitTable{header: "DEPENDENCY\tSTATE\tREADY\tWHY\tSINCE\tRESTARTS\tNEXT START\tREQUIRED BY\tLAST EXIT"}
	for _, d := range all {
		t.rows = append(t.rows, dependencyRow(d, now))
		spare := d.Reason == probes.DependencyStopped && len(d.RequiredBy) == 0 // as the operator wants it
		if text := d.Sentence(); text != "" && !spare && !strings.Contains(details, text) {
			t.sentences = append(t.sentences, text)
		}
	}
	t.write(w)
}

func dependencyRow(d probes.Dependency, now time.Time) []string {
	by := "-"
	if len(d.RequiredBy) > 0 {
		by = strings.ReplaceAll(strings.Join(d.RequiredBy, ", "), ".service", "")
	}
	since := "-"
	if !d.Since.IsZero() {
		since = age(d.Since, now)
	}
	return []string{
		d.Name, unitState(d.ActiveState, d.SubState), yesNo(d.Ready), string(d.Reason), since,
		fmt.Sprint(d.RestartsTotal), nextStart(d.NextRestartAt, now), by, lastExit(d.LastExit, now),
	}
}

func writeRemotes(w io.Writer, all []probes.Remote, now time.Time) {
	t := unitTable{
		header: "REMOTE\tSTATE\tREADY\tWHY\tSINCE\tACCOUNT\tATTACHED\tTURN SINCE\tCONTINUED\tRESTARTS\tLAST EXIT",
	}
	for _, r := range all {
		t.rows = append(t.rows, remoteRow(r, now))
		if text := r.Sentence(); text != "" {
			t.sentences = append(t.sentences, text)
		}
		if u := r.Use; u != nil && len(u.Unknown) > 0 {
			t.sentences = append(t.sentences, fmt.Sprintf("remote %s: refused requests that this codex-proxy does not know: %s",
				r.Name, strings.Join(u.Unknown, ", ")))
		}
	}
	t.write(w)
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
		r.Name, unitState(r.ActiveState, r.SubState), yesNo(r.Ready), string(r.Reason), age(r.Since, now),
		account, attached, turn, continued, fmt.Sprint(r.RestartsTotal), lastExit(r.LastExit, now),
	}
}
