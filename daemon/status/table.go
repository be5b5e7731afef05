package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/probes"
	"codex-proxy/units"
)

// writeTable writes the report as people read it at now, with times in
// the zone of now.
func writeTable(w io.Writer, r probes.Report, now time.Time) {
	ready, live := r.Health.Readiness, r.Health.Liveness
	readiness, liveness := "not ready", "not live ("+string(live.Reason)+")"
	if ready.Ready {
		readiness = "ready"
	}
	if live.Live {
		liveness = "live"
	}
	fmt.Fprintf(w, "%s (%s) since %s; %s since %s\n%s\n\n",
		readiness, ready.Reason, since(ready.Since, now), liveness, since(live.Since, now), queueLine(r.Queue))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "UNIT\tSTATE\tREADY\tWHY\tRESTARTS\tNEXT START\tIN FLIGHT\tLAST EXIT")
	for _, worker := range r.Workers {
		fmt.Fprintln(table, strings.Join(statusRow(worker, now), "\t"))
	}
	_ = table.Flush() // w is a buffer
	if ready.Details != "" {
		fmt.Fprintf(w, "\n%s\n", ready.Details)
	}
	writeDependencies(w, r.Dependencies, ready.Details, now)
	writeRemotes(w, r.Remotes, now)
	writeBrokers(w, r.Brokers, now)
	if text := r.Database.Sentence(); text != "" {
		fmt.Fprintf(w, "\n%s\n", text)
	}
}

// queueLine describes the requests that wait for any worker.
func queueLine(q probes.Queue) string {
	line := fmt.Sprintf("queue: %d of %d", q.Depth, q.Limit)
	if q.Depth > 0 {
		oldest := time.Duration(q.OldestWaitMS * float64(time.Millisecond))
		line += fmt.Sprintf(", the oldest for %s", oldest.Round(100*time.Millisecond))
	}
	return line
}

func statusRow(w probes.Worker, now time.Time) []string {
	why := string(w.Reason)
	if w.Drained {
		why += ", drained"
	}
	unit := w.Unit
	if unit != units.Worker(w.Name) { // its codex serves this account, too
		unit += " for " + w.Name
	}
	return []string{
		unit, unitState(w.ActiveState, w.SubState), yesNo(w.Ready), why, fmt.Sprint(w.RestartsTotal),
		nextStart(w.NextRestartAt, now), fmt.Sprint(w.Inflight), lastExit(w.LastExit, now),
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func unitState(active, sub string) string {
	if active == "" {
		return "unknown"
	}
	return active + " (" + sub + ")"
}

func nextStart(at *time.Time, now time.Time) string {
	if at == nil {
		return "-"
	}
	return "in " + max(0, at.Sub(now)).Round(100*time.Millisecond).String()
}

func lastExit(e *probes.Exit, now time.Time) string {
	if e == nil {
		return "-"
	}
	return fmt.Sprintf("%s, %s ago", e, age(e.At, now))
}

func since(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", t.In(now.Location()).Format("2006-01-02 15:04:05 MST"), age(t, now))
}

// age is the time since t, coarser the longer it is.
func age(t, now time.Time) string {
	d := max(0, now.Sub(t))
	switch {
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}
