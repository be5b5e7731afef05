package accounts

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/proxy/accounts"
	"codex-proxy/proxy/workers"
)

// loginWords are what people read for the words of the JSON.
var loginWords = map[string]string{
	string(codexhome.ChatGPT): "ChatGPT", string(codexhome.APIKey): "API key", string(codexhome.OtherLogin): "other",
	loginNotNeeded: "not needed", loginMissing: "missing", loginUnknown: "unknown",
}

// stateWords and stateColours are those of the states of an account.
var (
	stateWords = map[accounts.State]string{
		accounts.Available: "available", accounts.Low: "low", accounts.Exhausted: "exhausted",
		accounts.LoginInvalid: "login invalid", accounts.Unknown: "unknown",
	}
	stateColours = map[accounts.State]string{
		accounts.Available: green, accounts.Low: yellow, accounts.Exhausted: red, accounts.LoginInvalid: red,
	}
	sourceWords = map[accounts.Source]string{
		accounts.Reading: "by a reading", accounts.Update: "by a turn", accounts.Refusal: "by a refusal",
	}
)

// write writes the list at now, whose zone its times are in: for each account a line with
// its state, and indented lines with all else.
func (p paper) write(w io.Writer, list accountList, now time.Time) error {
	var text strings.Builder
	if list.Rotation != "" {
		fmt.Fprintf(&text, "rotation: %s\n", list.Rotation)
	}
	for _, row := range list.Accounts {
		fmt.Fprintf(&text, "\n%s  %s\n", p.in(bold, row.Name), p.headline(row, now))
		for _, line := range p.details(row, now) {
			fmt.Fprintf(&text, "  %-7s %s\n", line[0], line[1])
		}
	}
	_, err := io.WriteString(w, strings.TrimPrefix(text.String(), "\n"))
	return err
}

// headline is "available, in use" or "exhausted until 13:12, in 1h12m; paused".
func (p paper) headline(r accountRow, now time.Time) string {
	state := p.in(stateColours[r.State], stateWords[r.State])
	switch {
	case r.Login == loginMissing:
		state = p.in(red, "needs login")
	case r.Login == loginNotNeeded:
		state = "needs no login"
	case r.State == accounts.Exhausted && !r.Until.IsZero():
		state += " until " + clock(r.Until, now) + ", in " + left(r.Until.Sub(now))
	}
	words := []string{cmp.Or(state, "unknown")}
	for _, mark := range []struct {
		set  bool
		word string
	}{{r.Paused, p.in(yellow, "paused")}, {r.InUse, p.in(bold, "in use")}, {r.Next, "next"}} {
		if mark.set {
			words = append(words, mark.word)
		}
	}
	return strings.Join(words, "; ")
}

// details are the lines below the headline, each with its label.
func (p paper) details(r accountRow, now time.Time) (lines [][2]string) {
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
func (p paper) window(l workers.Limit) string {
	colour := green
	switch {
	case l.UsedRatio >= 0.95:
		colour = red
	case l.UsedRatio >= 0.9:
		colour = yellow
	}
	full := min(p.bar(), int(float64(p.bar())*max(0, l.UsedRatio)+0.5))
	bar := p.in(colour, strings.Repeat("#", full)) + strings.Repeat("-", p.bar()-full)
	return fmt.Sprintf("[%s] %3.0f %% used", bar, 100*l.UsedRatio)
}

// resetWords is "resets in 1h12m, at 13:12".
func resetWords(l workers.Limit, now time.Time) string {
	if l.ResetsAt.IsZero() {
		return ""
	}
	return "resets in " + left(l.ResetsAt.Sub(now)) + ", at " + clock(l.ResetsAt, now)
}

func creditWords(c *accounts.Credits) string {
	switch {
	case c == nil || !c.Has:
		return ""
	case c.Unlimited:
		return "unlimited"
	}
	return cmp.Or(printable(c.Balance), "some")
}

// printable is text of a worker, which may send any, as a terminal may show it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

// knownWords is "by a reading, 40s ago; a turn was refused 10s ago".
func knownWords(r accountRow, now time.Time) string {
	var words []string
	if !r.KnownAt.IsZero() {
		words = append(words, cmp.Or(sourceWords[r.KnownFrom], string(r.KnownFrom))+", "+age(r.KnownAt, now)+" ago")
	}
	if !r.RefusedAt.IsZero() {
		words = append(words, "a turn was refused "+age(r.RefusedAt, now)+" ago")
	}
	if !r.InvalidAt.IsZero() {
		words = append(words, "the login was refused "+age(r.InvalidAt, now)+" ago")
	}
	return strings.Join(words, "; ")
}

func (r accountRow) loginLine() string {
	if r.Login == loginMissing || r.Login == loginNotNeeded {
		return ""
	}
	return strings.TrimSuffix(loginWords[r.Login]+", "+printable(r.Plan), ", ")
}

func (r accountRow) unitLine() string {
	if r.ActiveState == "" {
		return "unknown"
	}
	return r.ActiveState + " (" + r.SubState + ")"
}

// clock is a time in the zone of now: "13:12", and with its day if that is another one.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("Mon 2 Jan 15:04")
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

// age is the time since t, coarser the longer it is.
func age(t, now time.Time) string {
	if d := max(0, now.Sub(t)); d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return left(now.Sub(t))
}
