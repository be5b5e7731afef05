package dependenciescli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/probes"
)

// colours are by reason; all others are red.
var colours = map[probes.DependencyReason]string{
	probes.DependencyReady: listing.Green, probes.DependencyStarting: listing.Yellow,
	probes.DependencyBackingOff: listing.Yellow, probes.DependencyStopping: listing.Yellow,
	probes.DependencyStopped: listing.Yellow,
}

// writeList writes for each dependency a line with its state, and indented lines with all else.
func writeList(p listing.Paper, w io.Writer, l list, now time.Time) error {
	var text strings.Builder
	if len(l.Dependencies) == 0 {
		text.WriteString("\nThere are no dependencies; codex-proxy dependencies add makes one.\n")
	}
	for _, r := range l.Dependencies {
		fmt.Fprintf(&text, "\n%s  %s\n", p.In(listing.Bold, r.Name), r.headline(p, now))
		for _, line := range r.details(now) {
			if line[1] != "" {
				fmt.Fprintf(&text, "  %-8s %s\n", line[0], line[1])
			}
		}
	}
	_, err := io.WriteString(w, strings.TrimPrefix(text.String(), "\n"))
	return err
}

// headline is "ready since 13:12, 40m".
func (r row) headline(p listing.Paper, now time.Time) string {
	colour, known := colours[r.Reason]
	if !known {
		colour = listing.Red
	}
	words := p.In(colour, strings.ReplaceAll(string(r.Reason), "_", " "))
	if !r.Since.IsZero() {
		words += " since " + listing.Clock(r.Since, now) + ", " + listing.Age(r.Since, now)
	}
	return words
}

// details are the lines below the headline, each with its label.
func (r row) details(now time.Time) [][2]string {
	why, fault := r.why(), listing.Printable(r.Error)
	if strings.Contains(why, fault) {
		fault = ""
	}
	return [][2]string{
		{"why", why},
		{"check", r.checkLine()},
		{"restarts", r.restarts(now)},
		{"needed", strings.Join(r.RequiredBy, ", ")},
		{"unit", r.unitLine()},
		{"error", fault},
	}
}

// why is the status of a ready dependency, or the reason of another one, with the remedy.
func (r row) why() string {
	if r.Ready {
		return listing.Printable(r.StatusText)
	}
	sentence := strings.TrimPrefix(r.Sentence(), "dependency "+r.Name+": "+string(r.Reason))
	return listing.Printable(strings.TrimLeft(sentence, ":,; "))
}

func (r row) restarts(now time.Time) string {
	words := fmt.Sprint(r.RestartsTotal)
	if r.NextRestartAt != nil {
		words += fmt.Sprintf(", the next in %.1fs", max(0, r.NextRestartAt.Sub(now).Seconds()))
	}
	return words
}

func (r row) unitLine() string {
	if r.ActiveState == "" {
		return "unknown to systemd"
	}
	words := fmt.Sprintf("%s, %s (%s)", r.Unit, r.ActiveState, r.SubState)
	if r.AtBoot {
		words += ", starts at boot"
	}
	return words
}
