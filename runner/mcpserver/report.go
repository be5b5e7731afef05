package mcpserver

import (
	"fmt"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
)

// report is the result of a tool about a command: its state or end, and a part of its output.
type report struct {
	Session string `json:"session" jsonschema:"the ID for further calls"`
	command
	part
	Size  int64    `json:"output_bytes" jsonschema:"of the whole output so far"`
	Notes []string `json:"notes,omitempty"`
}

// command is how a command stands or ended.
type command struct {
	Number   int      `json:"command" jsonschema:"the number of the command in its session"`
	Line     string   `json:"line" jsonschema:"the program and its arguments, shortened"`
	State    string   `json:"state" jsonschema:"awaiting_stdin, queued, starting, running, held or ended"`
	Position int      `json:"position,omitempty" jsonschema:"in the queue"`
	Seconds  float64  `json:"seconds,omitempty" jsonschema:"how long it has run"`
	Memory   int64    `json:"memory_peak,omitempty" jsonschema:"in bytes"`
	Outcome  *verdict `json:"outcome,omitempty" jsonschema:"how it ended"`
	Fault    string   `json:"artifacts_fault,omitempty" jsonschema:"why not all artifacts were kept"`
}

// verdict is an outcome.
type verdict struct {
	Outcome    string `json:"outcome" jsonschema:"one word of those that codex-runner(1) lists, such as succeeded, failed or timed_out"`
	Status     int    `json:"status" jsonschema:"the exit status of the command; 0 unless it exited by itself"`
	Signal     int    `json:"signal,omitempty" jsonschema:"that ended it"`
	ExitStatus int    `json:"exit_status" jsonschema:"the one of codex-runner run"`
	Text       string `json:"text" jsonschema:"a sentence, with the remedy"`
}

// commandOf is c at the time now.
func commandOf(c wire.Command, now time.Time) command {
	got := command{Number: c.Number, Line: line(c.Args), State: string(c.State), Position: c.Position,
		Fault: printable(c.ArtifactsFault)}
	if !c.Started.IsZero() {
		if !c.Ended.IsZero() {
			now = c.Ended
		}
		got.Seconds = max(0, now.Sub(c.Started).Round(time.Millisecond).Seconds())
	}
	if c.Usage != nil {
		got.Memory = c.Usage.MemoryPeak
	}
	if o := c.Outcome; o != nil {
		got.Outcome = &verdict{
			Outcome: string(o.Word), Status: o.Status, Signal: o.Signal, ExitStatus: o.ExitStatus, Text: printable(o.Text),
		}
	}
	return got
}

// line is a command in a line for people.
func line(args []string) string {
	text := printable(strings.Join(args, " "))
	if runes := []rune(text); len(runes) > lineBound {
		text = string(runes[:lineBound]) + "…"
	}
	return text
}

// sentence describes the state or the end of the command.
func (c command) sentence() string {
	switch wire.CommandState(c.State) {
	case wire.CommandEnded:
		if c.Outcome != nil {
			return c.Outcome.Text
		}
	case wire.CommandQueued:
		return fmt.Sprintf("The command waits in the queue, at place %d.", c.Position)
	case wire.CommandHeld:
		return "The command has failed, and its sandbox is held for a shell."
	case wire.CommandAwaitingStdin:
		return "The command waits for its standard input."
	case wire.CommandStarting:
		return "The command is starting: its workspace and its environment are made."
	}
	return fmt.Sprintf("The command is %s; it began %.1f s ago.", c.State, c.Seconds)
}

func (r report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nsession %s, command %d: %s\n", r.sentence(), r.Session, r.Number, r.Line)
	if r.Fault != "" {
		fmt.Fprintf(&b, "Not all artifacts were kept: %s\n", r.Fault)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(&b, note)
	}
	switch {
	case r.Size == 0:
		b.WriteString("No output.\n")
	case r.From == 0 && r.Next == r.Size:
		fmt.Fprintf(&b, "Output (%d bytes):\n%s", r.Size, r.Text)
	default:
		fmt.Fprintf(&b, "Output, bytes %d to %d of %d:\n%s", r.From, r.Next, r.Size, r.Text)
	}
	return b.String()
}

// ended reports whether the command has ended.
func ended(c wire.Command) bool { return c.Outcome != nil }
