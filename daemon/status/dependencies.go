package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/probes"
)

// writeDependencies writes the table of the dependencies, and the sentences of those that are
// not ready, unless details has them already. Without a dependency it writes nothing.
func writeDependencies(w io.Writer, all []probes.Dependency, details string, now time.Time) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DEPENDENCY\tSTATE\tREADY\tWHY\tSINCE\tRESTARTS\tNEXT START\tREQUIRED BY\tLAST EXIT")
	for _, d := range all {
		fmt.Fprintln(table, strings.Join(dependencyRow(d, now), "\t"))
	}
	_ = table.Flush() // w is a buffer
	for _, d := range all {
		spare := d.Reason == probes.DependencyStopped && len(d.RequiredBy) == 0 // as the operator wants it
		if text := d.Sentence(); text != "" && !spare && !strings.Contains(details, text) {
			fmt.Fprintf(w, "\n%s\n", text)
		}
	}
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
