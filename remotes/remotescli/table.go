package remotescli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/probes"
	"codex-proxy/units"
)

// writeList writes for each remote a line with its state, and indented lines with all else.
func writeList(p listing.Paper, w io.Writer, l list, now time.Time) error {
	var text strings.Builder
	if len(l.Remotes) == 0 {
		text.WriteString("\nThere are no remotes; codex-proxy remotes add makes one.\n")
	}
	for _, r := range l.Remotes {
		fmt.Fprintf(&text, "\n%s  %s\n", p.In(listing.Bold, r.Name), r.headline(p, now))
		for _, line := range r.details(now) {
			if line[1] != "" {
				fmt.Fprintf(&text, "  %-9s %s\n", line[0], line[1])
			}
		}
	}
	_, err := io.WriteString(w, strings.TrimPrefix(text.String(), "\n"))
	return err
}

// The words that a list has besides the reasons of the probes: a ready remote in which turns run, and one that sleeps
// without its socket.
const (
	works  = "works"
	closed = "closed"
)

// state is the remote's in one word, with its colour.
func (r row) state() (word, colour string) {
	switch {
	case r.Reason == probes.RemoteReady && len(r.working()) > 0:
		return works, listing.Green
	case r.ActiveState == "", r.Reason == probes.RemoteAsleep && !r.Listening:
		return closed, listing.Yellow
	case r.Reason.Final():
		return string(r.Reason), listing.Red
	case r.Reason.Down(), r.Reason == probes.RemoteStopping:
		return string(r.Reason), listing.Yellow
	}
	return string(r.Reason), listing.Green
}

func (r row) headline(p listing.Paper, now time.Time) string {
	word, colour := r.state()
	words := p.In(colour, word)
	if !r.Since.IsZero() {
		words += " since " + listing.Clock(r.Since, now) + ", " + listing.Age(r.Since, now)
	}
	switch word {
	case string(probes.RemoteAsleep):
		words += "; an attach starts it"
	case closed:
		words += "; systemctl start " + units.RemoteSocket(r.Name) + " opens it"
	}
	return words
}

// working are the times since when turns run.
func (r row) working() (since []time.Time) {
	for _, t := range r.Turns {
		if !t.Cut && !t.Quota && !t.Since.IsZero() {
			since = append(since, t.Since)
		}
	}
	return since
}

func (r row) details(now time.Time) [][2]string {
	return [][2]string{
		{"why", r.why()},
		{"attached", r.attached()},
		{"turns", r.turns(now)},
		{"account", r.account(now)},
		{"words", listing.Printable(r.Words)},
		{"unknown", r.unknown()},
		{"restarts", r.restarts()},
		{"directory", r.Directory},
		{"user", r.User},
		{"unit", fmt.Sprintf("%s, %s (%s)", r.Unit, r.ActiveState, r.SubState)},
		{"error", listing.Printable(r.Error)},
	}
}

// why is the status text of a unit that is not active.
func (r row) why() string {
	if r.ActiveState == "active" {
		return ""
	}
	return listing.Printable(r.StatusText)
}

func (r row) attached() string {
	var who []string
	for _, c := range r.Attached {
		name := listing.Printable(c.User)
		if c.Viewer {
			name += " (viewer)"
		}
		who = append(who, name)
	}
	return strings.Join(who, ", ")
}

func (r row) turns(now time.Time) string {
	var words []string
	for _, t := range r.Turns {
		switch {
		case t.Quota:
			words = append(words, "waits for quota since "+listing.Age(t.Since, now))
		case t.Cut:
			words = append(words, "one was cut: it goes on when a person says so")
		case r.ActiveState != "active":
			words = append(words, "one was cut: the next start goes on with it")
		case !t.WaitingSince.IsZero():
			words = append(words, "waits for a person since "+listing.Age(t.WaitingSince, now))
		default:
			words = append(words, "runs since "+listing.Age(t.Since, now))
		}
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

// account is the one that serves, or why none does.
func (r row) account(now time.Time) string {
	words := listing.Printable(r.Account)
	if r.Switches > 0 {
		words += ", " + plural(r.Switches, "switch", "switches")
	}
	if r.NoAccount == "" {
		return words
	}
	words = strings.TrimPrefix(words+"; none serves now: "+listing.Printable(r.NoAccount), "; ")
	if !r.QuotaAt.IsZero() {
		words += "; quota is expected at " + listing.Clock(r.QuotaAt, now)
	}
	return words
}

// unknown are the requests of clients that were refused because no rule is on them.
func (r row) unknown() string {
	if len(r.Unknown) == 0 {
		return ""
	}
	return listing.Printable(strings.Join(r.Unknown, ", ")) +
		": refused, for this codex-proxy does not know these requests"
}

func (r row) restarts() string {
	if r.Restarts == 0 && r.Continued == 0 {
		return ""
	}
	return fmt.Sprintf("%d; %s went on", r.Restarts, plural(r.Continued, "turn", "turns"))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
