package hands

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"sync/atomic"

	"codex-proxy/codex/jsonscan"
)

// commands counts the commands that were started.
type commands struct{ started atomic.Int64 }

// Commands is how many commands have started in the hands since this process did.
func (h *Hands) Commands() int { return int(h.commands.started.Load()) }

const (
	// observed bounds the part of a message of codex that is examined, in bytes.
	observed = 1 << 20
	// shownCommand bounds the text of a command in the journal, and shownWord the other texts, in bytes.
	shownCommand, shownWord = 4 << 10, 256
	// headOfMessage has the method of a message that is too long to be parsed.
	headOfMessage = 256
)

// Command is a command that starts in the hands.
type Command struct {
	Thread string
	Call   string // of the tool; empty: none
	User   string // that has asked for it; empty: the model
	Dir    string
	Argv   []string
}

// Note writes a command into the journal, and counts it.
func (h *Hands) Note(c Command) {
	h.commands.started.Add(1)
	h.Logger.Info("a command starts in hands", "session", h.Session(),
		"thread_id", shown(c.Thread, shownWord), "tool_call", shown(c.Call, shownWord),
		"user", shown(c.User, shownWord), "dir", shown(c.Dir, shownWord),
		"command", shown(strings.Join(c.Argv, " "), shownCommand))
}

// shown is a text as the journal has it.
func shown(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// observe notes the command of a message of codex that starts a process. whole is false if only the beginning of the
// message is there. A session elsewhere gets the process before it starts; of is nil if the hands are here.
func (h *Hands) observe(beginning []byte, whole bool, of *farSession) {
	if !bytes.Contains(beginning[:min(len(beginning), headOfMessage)], []byte(`"`+startMethod+`"`)) {
		return
	}
	if !whole {
		if id := processOf(beginning); of != nil && id != "" {
			of.starts(id)
		}
		h.Note(Command{Argv: []string{"(a command of more than 1 MiB)"}})
		return
	}
	var m struct {
		Method string       `json:"method"`
		Params startProcess `json:"params"`
	}
	if jsonscan.Unmarshal(beginning, &m) != nil || m.Method != startMethod {
		return
	}
	dir := m.Params.Dir
	if u, err := url.Parse(dir); err == nil && u.Scheme == "file" {
		dir = u.Path
	}
	if of != nil {
		of.starts(m.Params.ID)
	}
	h.Note(Command{Thread: m.Params.Metadata.Thread, Call: m.Params.Metadata.Call, Dir: dir, Argv: m.Params.Argv})
}

// processOf is the process of a message of which only the beginning is there; empty: its ID is not in that.
func processOf(beginning []byte) (id string) {
	d := json.NewDecoder(bytes.NewReader(beginning))
	if !toMember(d, "params") || !toMember(d, "processId") || d.Decode(&id) != nil {
		return ""
	}
	return id
}

// toMember reads an object up to the value of a member.
func toMember(d *json.Decoder, name string) bool {
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return false
	}
	for {
		key, err := d.Token()
		if err != nil || key == json.Delim('}') {
			return false
		}
		if key == name {
			return true
		}
		var other json.RawMessage
		if d.Decode(&other) != nil {
			return false
		}
	}
}

// startMethod is the request of the protocol of exec-server that starts a process.
const startMethod = "process/start"

// startProcess has its parameters.
type startProcess struct {
	ID       string `json:"processId"`
	Metadata struct {
		Thread string `json:"threadId,omitempty"`
		Call   string `json:"toolCallId,omitempty"`
	} `json:"metadata"`
	Argv []string `json:"argv"`
	Dir  string   `json:"cwd"`
}
