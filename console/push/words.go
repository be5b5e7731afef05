package push

import (
	"slices"
	"strings"
	"unicode/utf8"

	"codex-proxy/internal/listing"
)

const (
	// maxWhole and maxLines bound a question that may be approved from a notification: systems cut longer ones.
	maxWhole = 120
	maxLines = 3
	// maxBody bounds other texts, in characters.
	maxBody = 240
)

// The decisions of a person, in codex's words.
const (
	accept  = "accept"
	decline = "decline"
)

// message is a notification, as the service worker of the page (sw.js) shows it.
type message struct {
	Title   string   `json:"title"`
	Body    string   `json:"body"`
	Tag     string   `json:"tag"` // a later one takes the place of one with the same tag
	Token   string   `json:"token,omitempty"`
	Actions []action `json:"actions,omitempty"`
}

// action is a button of a notification.
type action struct {
	Action string `json:"action"` // a decision
	Title  string `json:"title"`
}

// titles are the titles of the events of remotes, after the name.
var titles = map[string]string{
	waiting:             "a turn waits for a person",
	"turn-ended":        "the turn has ended",
	cutTurn:             "a turn was cut, and waits for your word",
	"turn-given-up":     "a turn was cut again and again, and is given up",
	"turn-out-of-quota": "a turn waits for quota",
}

// plain is the message of an event without a question.
func plain(n Notice) message {
	title := titles[n.Event]
	switch {
	case n.Event == "turn-ended" && n.Status == "failed":
		title = "the turn has failed"
	case n.Event == "turn-ended" && n.Status == "interrupted":
		title = "the turn was interrupted"
	}
	body := cut(n.Text, maxBody)
	switch n.Event {
	case waiting:
		body = "Open the page, or a terminal: codex-proxy attach " + n.Remote
	case cutTurn:
		body = "It goes on after codex-proxy remotes continue " + n.Remote + "; a new message leaves it."
	}
	return message{Title: n.Remote + ": " + title, Body: body, Tag: n.Remote + " " + n.Event + " " + n.Thread}
}

// asking is the message of a question, with the decisions that its buttons have: a question that the notification
// does not show whole can only be declined.
func asking(n Notice, q Question) (m message, decisions []string) {
	text, whole := shown(q)
	m = message{Title: n.Remote + titleOf(q.Kind), Body: text, Tag: n.Remote + " " + q.ID}
	for _, a := range []action{{accept, "Approve"}, {decline, "Deny"}} {
		if slices.Contains(q.Decisions, a.Action) && (whole || a.Action != accept) {
			m.Actions, decisions = append(m.Actions, a), append(decisions, a.Action)
		}
	}
	return m, decisions
}

func titleOf(kind string) string {
	switch kind {
	case "command":
		return " asks: run this command?"
	case "change":
		return " asks: change these files?"
	}
	return " asks for an answer"
}

// shown is the text of a question in a notification, and whether it is whole.
func shown(q Question) (text string, whole bool) {
	text = strings.TrimSuffix(q.Text, "\n")
	if q.Directory != "" {
		text += "\nin " + q.Directory
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = listing.Visible(line)
	}
	visible := strings.Join(lines, "\n")
	whole = q.Text != "" && utf8.RuneCountInString(visible) <= maxWhole && len(lines) <= maxLines && visible == text &&
		!strings.Contains(text, "\t")
	if whole {
		return text, true
	}
	return cut(visible, maxWhole) + "\nOpen the page to see all of it.", false
}

// cut is the beginning of a text.
func cut(text string, most int) string {
	runes := []rune(strings.ToValidUTF8(text, ""))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most]) + "…"
}
