package wire

import (
	"time"

	"codex-proxy/runner/outcome"
)

// CommandState is the state of a command.
type CommandState string

// The states of a command, in their order. Held is left out unless the session asked for it.
const (
	CommandAwaitingStdin CommandState = "awaiting_stdin" // PUT …/stdin queues it
	CommandQueued        CommandState = "queued"
	// CommandStarting: its unit is started; the workspace and the environment are prepared.
	CommandStarting CommandState = "starting"
	CommandRunning  CommandState = "running"
	CommandHeld     CommandState = "held" // ended without success; its unit waits for a shell
	CommandEnded    CommandState = "ended"
)

// Command is one command of a session.
type Command struct {
	Number    int          `json:"number"` // from 1, the order in which they run
	State     CommandState `json:"state"`
	Args      []string     `json:"args"`
	Directory string       `json:"directory,omitempty"`
	Limits    Limits       `json:"limits"`             // all of them
	Position  int          `json:"position,omitempty"` // in the queue, from 1
	Created   time.Time    `json:"created"`
	Started   time.Time    `json:"started,omitzero"` // of the command itself, without its preparation
	Ended     time.Time    `json:"ended,omitzero"`
	// Outcome is how it ended; nil before.
	Outcome *outcome.Outcome `json:"outcome,omitempty"`
	// Usage of an ended command.
	Usage      *Usage `json:"usage,omitempty"`
	Invocation string `json:"invocation,omitempty"` // _SYSTEMD_INVOCATION_ID of the journal
	// ArtifactsFault is why not all artifacts were kept; "" if they were.
	ArtifactsFault string `json:"artifacts_fault,omitempty"`
}

// Usage counts the resources that a command has used.
type Usage struct {
	Output     int64    `json:"output"`      // bytes
	User       Duration `json:"user"`        // CPU time of the command and of the children that it waited for
	System     Duration `json:"system"`      // of the same processes
	MemoryPeak int64    `json:"memory_peak"` // bytes, of all its processes; 0 if the kernel does not count
}

// Cancel is the body of POST /v1/sessions/{id}/cancel.
type Cancel struct {
	// Command is the number of one command; 0 cancels all that have not ended, and closes the session.
	Command int `json:"command,omitempty"`
}

// Artifact is a file that a command left.
type Artifact struct {
	ID      int64     `json:"id"`
	Command int       `json:"command"`
	Path    string    `json:"path"` // in the workspace
	Kind    string    `json:"kind"` // file, junit or coverage
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`
	Created time.Time `json:"created"`
}

// Artifacts are the artifacts of a session.
type Artifacts struct {
	Artifacts []Artifact `json:"artifacts"`
}
