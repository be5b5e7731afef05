package listing

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Printable is text of a program that is not trusted, as a terminal may show it.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

// blank are signs that print, and show nothing.
const blank = "\u034f\u115f\u1160\u2800\u3164\uffa0"

// Visible is Printable with a code such as \u{200b} for each sign that would be left out, but a tab, or show nothing.
func Visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == '\t' || unicode.IsPrint(r) && !strings.ContainsRune(blank, r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, `\u{%x}`, r)
		}
	}
	return out.String()
}

// Clock is a time in the zone of now: "13:12", and with its day if that is another one.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("Mon 2 Jan 15:04")
}

// Left is a remaining time, coarser the longer it is.
func Left(d time.Duration) string {
	switch minutes := int(max(0, d).Minutes()); {
	case minutes < 60:
		return fmt.Sprintf("%dm", minutes)
	case minutes < 48*60:
		return fmt.Sprintf("%dh%dm", minutes/60, minutes%60)
	default:
		return fmt.Sprintf("%d days", minutes/(24*60))
	}
}

// Age is the time since t, coarser the longer it is.
func Age(t, now time.Time) string {
	if d := max(0, now.Sub(t)); d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return Left(now.Sub(t))
}
