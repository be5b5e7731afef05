// Package transcript shows a thread of a remote to a person without a terminal, and carries out the person's orders for
// it: approvals, and the end of a turn. It is a client of the remote's own sockets, with the rights of its user.
package transcript

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/internal/listing"
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

	changes string // of files that are about to be made; empty: none, or some of a kind that is not known
}

// Question is an approval that a turn waits for.
type Question struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"` // command, change or other; a terminal answers others
	Text      string   `json:"text"` // the command, or the changes of files
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
	// maxUpdate bounds the items of one update, of which the newest count.
	maxUpdate = 512 << 10
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
		Path string          `json:"path"`
		Kind json.RawMessage `json:"kind"`
		Diff string          `json:"diff"`
	} `json:"changes"`
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Query  string `json:"query"`
}

// changes are the changes of files for an approval, up to a bit more than a question has: a line for each file, and
// below it, indented, so that no content looks like such a line, its content or difference.
func (i item) changes() string {
	if i.Status != codexthread.InProgress { // another item has them, perhaps before with the same ID
		return ""
	}
	var out strings.Builder
	for _, c := range i.Changes {
		var kind struct {
			Type string `json:"type"` // add, delete or update
			To   string `json:"move_path"`
		}
		if json.Unmarshal(c.Kind, &kind) != nil || !slices.Contains([]string{"add", "delete", "update"}, kind.Type) {
			return ""
		}
		out.WriteString(kind.Type + " " + plain(c.Path))
		if kind.To != "" {
			out.WriteString(" -> " + plain(kind.To))
		}
		out.WriteString("\n")
		for line := range strings.Lines(c.Diff) {
			out.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
		}
		if out.Len() > maxText {
			return out.String()[:maxText+1]
		}
	}
	return out.String()
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
		out.changes = i.changes()
	case "tool":
		out.Text = strings.TrimPrefix(i.Server+"."+i.Tool, ".")
	case "search":
		out.Text = i.Query
	}
	out.Text, out.Output = head(out.Text, maxText), tail(out.Output, maxOutput)
	return out, kind != "reasoning" || out.Text != ""
}

// plain is a path in one line, in quotes if a sign of it has no form.
func plain(path string) string {
	if listing.Printable(path) == path {
		return path
	}
	return strconv.Quote(path)
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
