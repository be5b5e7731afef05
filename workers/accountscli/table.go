package accountscli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
)

// loginWords are the table's texts for the words of the JSON.
var loginWords = map[string]string{
	string(codexhome.ChatGPT): "ChatGPT", string(codexhome.APIKey): "API key", string(codexhome.OtherLogin): "other",
	loginNotNeeded: "not needed", loginMissing: "missing", loginUnknown: "unknown",
}

// stateWords and stateColours are for the states of an account.
var (
	stateWords = map[accounts.State]string{
		accounts.Available: "available", accounts.Low: "low", accounts.Exhausted: "exhausted",
		accounts.LoginInvalid: "login invalid", accounts.Unknown: "unknown",
	}
	stateColours = map[accounts.State]string{
		accounts.Available: listing.Green, accounts.Low: listing.Yellow, accounts.Exhausted: listing.Red,
		accounts.LoginInvalid: listing.Red,
	}
	sourceWords = map[accounts.Source]string{
		accounts.Reading: "by a reading", accounts.Update: "by a turn", accounts.Refusal: "by a refusal",
	}
)

// writeList is write for a Listing.
func writeList(p listing.Paper, w io.Writer, list accountList, now time.Time) error {
	return page{p}.write(w, list, now)
}

// write writes the list at now, with times in the zone of now: for each account a line with
// its state, and indented lines with all else.
func (p page) write(w io.Writer, list accountList, now time.Time) error {
	var text strings.Builder
	if list.Rotation != "" {
		fmt.Fprintf(&text, "rotation: %s\n", list.Rotation)
	}
	for _, row := range list.Accounts {
		fmt.Fprintf(&text, "\n%s  %s\n", p.In(listing.Bold, row.Name), p.headline(row, now))
		for _, line := range p.details(row, now) {
			fmt.Fprintf(&text, "  %-7s %s\n", line[0], line[1])
		}
	}
	_, err := io.WriteString(w, strings.TrimPrefix(text.String(), "\n"))
	return err
}

// headline is "available, in use" or "exhausted until 13:12, in 1h12m; paused".
func (p page) headline(r accountRow, now time.Time) string {
	state := p.In(stateColours[r.State], stateWords[r.State])
	switch {
	case r.Login == loginMissing:
		state = p.In(listing.Red, "needs login")
	case r.Login == loginNotNeeded:
		state = "needs no login"
	case r.State == accounts.Exhausted && !r.Until.IsZero():
		state += " until " + listing.Clock(r.Until, now) + ", in " + listing.Left(r.Until.Sub(now))
	}
	words := []string{cmp.Or(state, "unknown")}
	for _, mark := range []struct {
		set  bool
		word string
	}{{r.Paused, p.In(listing.Yellow, "paused")}, {r.InUse, p.In(listing.Bold, "in use")}, {r.Next, "next"}} {
		if mark.set {
			words = append(words, mark.word)
		}
	}
	return strings.Join(words, "; ")
}

// details are the lines below the headline, each with its label.
func (p page) details(r accountRow, now time.Time) (lines [][2]string) {
	add := func(label, text string) {
		if text != "" {
			lines = append(lines, [2]string{label, text})
		}
	}
	for _, l := range r.Limits {
		bar, reset := p.window(l), resetWords(l, now)
		if reset != "" && p.narrow() {
			add(l.Window, bar)
			add("", reset)
			continue
		}
		add(l.Window, strings.TrimSuffix(bar+", "+reset, ", "))
	}
	add("credits", creditWords(r.Credits))
	add("known", knownWords(r, now))
	add("same", strings.Join(r.SharedWith, ", "))
	add("login", cmp.Or(r.loginLine(), ""))
	add("unit", r.unitLine())
	add("plan", r.Why)
	add("error", r.Error)
	return lines
}

// window is "[####------]  42 % used".
func (p page) window(l accounts.Limit) string {
	colour := listing.Green
	switch {
	case l.UsedRatio >= 0.95:
		colour = listing.Red
	case l.UsedRatio >= 0.9:
		colour = listing.Yellow
	}
	full := min(p.bar(), int(float64(p.bar())*max(0, l.UsedRatio)+0.5))
	bar := p.In(colour, strings.Repeat("#", full)) + strings.Repeat("-", p.bar()-full)
	return fmt.Sprintf("[%s] %3.0f %% used", bar, 100*l.UsedRatio)
}

// resetWords is "resets in 1h12m, at 13:12".
func resetWords(l accounts.Limit, now time.Time) string {
	if l.ResetsAt.IsZero() {
		return ""
	}
	return "resets in " + listing.Left(l.ResetsAt.Sub(now)) + ", at " + listing.Clock(l.ResetsAt, now)
}

func creditWords(c *accounts.Credits) string {
	switch {
	case c == nil || !c.Has:
		return ""
	case c.Unlimited:
		return "unlimited"
	}
	return cmp.Or(listing.Printable(c.Balance), "some")
}

// knownWords is "by a reading, 40s ago; a turn was refused 10s ago".
func knownWords(r accountRow, now time.Time) string {
	var words []string
	if !r.KnownAt.IsZero() {
		from := cmp.Or(sourceWords[r.KnownFrom], string(r.KnownFrom))
		words = append(words, from+", "+listing.Age(r.KnownAt, now)+" ago")
	}
	if !r.RefusedAt.IsZero() {
		words = append(words, "a turn was refused "+listing.Age(r.RefusedAt, now)+" ago")
	}
	if !r.InvalidAt.IsZero() {
		words = append(words, "the login was refused "+listing.Age(r.InvalidAt, now)+" ago")
	}
	return strings.Join(words, "; ")
}

func (r accountRow) loginLine() string {
	if r.Login == loginMissing || r.Login == loginNotNeeded {
		return ""
	}
	return strings.TrimSuffix(loginWords[r.Login]+", "+listing.Printable(r.Plan), ", ")
}

func (r accountRow) unitLine() string {
	if r.ActiveState == "" {
		return "unknown"
	}
	return r.ActiveState + " (" + r.SubState + ")"
}
