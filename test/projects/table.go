package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is what a project did.
type row struct {
	project
	setUp    outcome    // on the host, of the set-up that codex-runner has for it
	host     [2]outcome // the command without the runner, after it
	sessions [2]outcome
	start    outcome // a session that does nothing
	offline  bool    // the second session had no network
	// hostOffline is the command without the runner and without the network, if the second session did not end as with it.
	hostOffline outcome
	fault       string
}

// worked reports whether a session ended as the command without the runner did. One that was ended for its time did not.
func (r row) worked(i int) bool {
	return r.fault == "" && same(r.sessions[i], r.host[0])
}

// same reports whether a session ended as a command did, and not for its time.
func same(session, host outcome) bool {
	return session.status >= 0 && session.status == host.status && session.result() == host.result()
}

func (r row) atOnce() bool { return r.worked(0) && (r.offline || r.worked(1)) }

// workedOffline reports whether the second session ended as the command did without the runner: with the network, or,
// if some tests need that, without it.
func (r row) workedOffline() bool {
	return r.offline && (r.worked(1) || r.fault == "" && r.hostOffline.took > 0 && same(r.sessions[1], r.hostOffline))
}

// detail is what somebody needs who looks for the reason.
func (r row) detail() string {
	var b strings.Builder
	b.WriteString(r.String() + "\n")
	if r.atOnce() && (!r.offline || r.workedOffline()) {
		return b.String()
	}
	for name, o := range map[string]outcome{
		"set-up": r.setUp, "host": r.host[0], "session": r.sessions[0], "second session": r.sessions[1],
		"host without the network": r.hostOffline,
	} {
		lines := strings.Split(strings.TrimSpace(o.output), "\n")
		fmt.Fprintf(&b, "-- %s: status %d in %.1f s: %s\n%s\n", name, o.status, o.took.Seconds(), o.result(),
			strings.Join(lines[max(0, len(lines)-25):], "\n"))
	}
	return b.String()
}

// table has all rows.
type table []row

func (t table) String() string {
	var b strings.Builder
	b.WriteString("| project | command | at once | result | first session | second session | of that, the start | host, second | ratio |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range t {
		fmt.Fprintln(&b, r)
	}
	fmt.Fprintf(&b, "%d of %d worked at once\n", t.count(row.atOnce), len(t))
	if n := t.count(row.workedOffline); n > 0 {
		fmt.Fprintf(&b, "%d of %d worked without the network in the second session\n", n, len(t))
	}
	if ratios := t.ratios(); len(ratios) > 0 {
		fmt.Fprintf(&b, "second session beside the second command without the runner: %.1f times at the median, %.1f at worst\n",
			ratios[len(ratios)/2], ratios[len(ratios)-1])
	}
	return b.String()
}

// count is the number of rows of a kind.
func (t table) count(is func(row) bool) (n int) {
	for _, r := range t {
		if is(r) {
			n++
		}
	}
	return n
}

// ratios are those of the projects whose second session worked, the smallest first.
func (t table) ratios() (all []float64) {
	for _, r := range t {
		if r.worked(0) && r.worked(1) {
			all = append(all, r.ratio())
		}
	}
	slices.Sort(all)
	return all
}

// ratio is the time of the second session beside that of the second command without the runner.
func (r row) ratio() float64 {
	return r.sessions[1].took.Seconds() / max(r.host[1].took.Seconds(), 0.001)
}

func (r row) String() string {
	if r.fault != "" {
		return fmt.Sprintf("| %s | `%s` | no | %s |  |  |  |  |  |", r.repository, r.command, r.fault)
	}
	atOnce, result := "yes", fmt.Sprintf("%d: %s", r.sessions[0].status, shortened(r.sessions[0].result()))
	if r.offline && r.atOnce() && !r.workedOffline() {
		atOnce = "yes, not without the network"
	}
	if !r.atOnce() {
		atOnce = "no"
		result += fmt.Sprintf("; host %d: %s", r.host[0].status, shortened(r.host[0].result()))
	}
	second, host := r.sessions[1].took.Seconds(), r.host[1].took.Seconds()
	return fmt.Sprintf("| %s | `%s` | %s | %s | %.1f s | %.1f s | %.1f s | %.1f s | %.1f |", r.repository, r.command, atOnce,
		result, r.sessions[0].took.Seconds(), second, r.start.took.Seconds(), host, r.ratio())
}

func shortened(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return text
}
