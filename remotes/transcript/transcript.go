// Package transcript shows a thread of a remote to a person without a terminal, and carries out the person's orders for
// it: approvals, and the end of a turn. It is a client of the remote's own sockets, with the rights of its user.
package transcript

import (
	"encoding/json"
	"strings"

	"codex-proxy/remotes/codexthread"
)

// Update is a change of a thread: its state, and the items that are new or have changed since the update before.
type Update struct {
	Thread string `json:"thread"` // empty: the remote has none yet
	Name   string `json:"name,omitempty"`
	// Turn is the turn that runs; empty: none does.
	Turn string `json:"turn,omitempty"`
	// Waits means that the turn waits for a person.
	Waits bool `json:"waits,omitempty"`
	// Questions are the approvals that the turn waits for. A viewer gets none.
	Questions []Question `json:"questions"`
	Items     []Item     `json:"items,omitempty"` // oldest first
}

// Item is one step of a thread.
type Item struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // see kinds
	Text string `json:"text"`
	// Output is the output of a command, or the changes of files.
	Output string `json:"output,omitempty"`
	Status string `json:"status,omitempty"` // of a command and others, in codex's words
	Exit   *int   `json:"exit,omitempty"`   // of a command
}

// Question is an approval that a turn waits for.
type Question struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"` // command, change or other; a terminal answers others
	Text      string   `json:"text"` // the command
	Directory string   `json:"directory,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Decisions []string `json:"decisions"` // that Approve takes
}

// The bounds of one item, in bytes, and of the items that are kept.
const (
	maxText   = 8 << 10
	maxOutput = 4 << 10
	maxItems  = 200
	maxTurns  = 10 // at the beginning
)

// kinds are the kinds of the items that are shown, by codex's names.
var kinds = map[string]string{
	"userMessage": "user", "agentMessage": "agent", "plan": "plan", "reasoning": "reasoning",
	"commandExecution": "command", "fileChange": "change", "mcpToolCall": "tool", "dynamicToolCall": "tool",
	"webSearch": "search", "contextCompaction": "compaction",
}

// item is an item of a thread as codex has it.
type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Summary []string `json:"summary"`
	Command string   `json:"command"`
	Output  string   `json:"aggregatedOutput"`
	Exit    *int     `json:"exitCode"`
	Status  string   `json:"status"`
	Changes []struct {
		Path string `json:"path"`
		Diff string `json:"diff"`
	} `json:"changes"`
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Query  string `json:"query"`
}

// itemOf is an item for people; false: it is not shown.
func itemOf(raw json.RawMessage) (Item, bool) {
	var i item
	if json.Unmarshal(raw, &i) != nil { // the content of a reasoning has another form
		var head struct{ ID, Type, Text string }
		if json.Unmarshal(raw, &head) != nil {
			return Item{}, false
		}
		var rest struct{ Summary []string }
		_ = json.Unmarshal(raw, &rest) // then it has none
		i = item{ID: head.ID, Type: head.Type, Text: head.Text, Summary: rest.Summary}
	}
	kind, known := kinds[i.Type]
	if !known || i.ID == "" {
		return Item{}, false
	}
	out := Item{ID: i.ID, Kind: kind, Text: i.Text, Status: i.Status, Exit: i.Exit, Output: i.Output}
	switch kind {
	case "user":
		var parts []string
		for _, part := range i.Content {
			parts = append(parts, part.Text)
		}
		out.Text = strings.Join(parts, "\n")
	case "reasoning":
		out.Text = strings.Join(i.Summary, "\n")
	case "command":
		out.Text = i.Command
	case "change":
		var paths, diffs []string
		for _, c := range i.Changes {
			paths, diffs = append(paths, c.Path), append(diffs, c.Path+"\n"+c.Diff)
		}
		out.Text, out.Output = strings.Join(paths, "\n"), strings.Join(diffs, "\n")
	case "tool":
		out.Text = strings.TrimPrefix(i.Server+"."+i.Tool, ".")
	case "search":
		out.Text = i.Query
	}
	out.Text, out.Output = head(out.Text, maxText), tail(out.Output, maxOutput)
	return out, kind != "reasoning" || out.Text != ""
}

func head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-most:], "")
}

// turn is a turn with all of its items.
type turn struct {
	ID     string            `json:"id"`
	Status string            `json:"status"`
	Items  []json.RawMessage `json:"items"`
}

// resumed is codex's answer to thread/resume.
type resumed struct {
	Thread codexthread.Thread `json:"thread"`
	Page   struct {
		Data []turn `json:"data"` // newest first
	} `json:"initialTurnsPage"`
}

// running is the turn that runs; empty: none does.
func (r resumed) running() string {
	if len(r.Page.Data) > 0 && r.Page.Data[0].Status == codexthread.InProgress {
		return r.Page.Data[0].ID
	}
	return ""
}
