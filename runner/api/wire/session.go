package wire

import "time"

// NewSession is the body of POST /v1/sessions. Its zero values are the defaults.
type NewSession struct {
	// Repository is a URL that the daemon fetches, or the Key of a Repository; without one the workspace is empty.
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"` // branch, tag or commit; the default branch
	Patch      string `json:"patch,omitempty"`
	// Environment is auto, setup, none or conda: auto with a repository, none without. auto is setup if one fits.
	Environment string `json:"environment,omitempty"`
	// SetUp is the text of a file like .codex-runner.toml, in place of the repository's own. With it, Environment is
	// setup.
	SetUp   string `json:"setup,omitempty"`
	Network bool   `json:"network,omitempty"`
	// Secrets are files in $CREDENTIALS_DIRECTORY, secrets_NAME, and are hidden in logs. No answer has their values.
	Secrets  map[string]string `json:"secrets,omitempty"`
	Limits   Limits            `json:"limits,omitzero"` // of the commands that have none
	Commands []NewCommand      `json:"commands"`        // at least one
	// HoldOnFailure is how long the unit of a command that did not succeed stays, for a shell in it.
	HoldOnFailure Duration `json:"hold_on_failure,omitempty"`
	// IdleTimeout is how long the session stays open without a command, in place of idle_timeout of runner.toml. More
	// than max_idle_timeout there is as much as that.
	IdleTimeout Duration `json:"idle_timeout,omitempty"`
	DryRun      bool     `json:"dry_run,omitempty"` // answer with a Plan, start nothing
}

// NewCommand is a command of a NewSession, and the body of POST /v1/sessions/{id}/commands.
type NewCommand struct {
	Args      []string          `json:"args"`
	Directory string            `json:"directory,omitempty"` // relative to the workspace
	Env       map[string]string `json:"env,omitempty"`
	Limits    Limits            `json:"limits,omitzero"`
	// Stdin has the command wait for PUT /v1/sessions/{id}/commands/{n}/stdin; without it, its input is empty.
	Stdin bool `json:"stdin,omitempty"`
	// Journal has the output go to the journal in addition to the log of the command.
	Journal   bool     `json:"journal,omitempty"`
	Artifacts []string `json:"artifacts,omitempty"` // globs in the workspace, kept when the command has ended
	// TTY gives the command a terminal in place of its three streams: its output is one stream, stdout. Its input is
	// from POST …/terminal, and excludes Stdin.
	TTY *TTY `json:"tty,omitempty"`
	// Kept has the command end as workspace_failed if the session has no workspace any more, in place of making it
	// anew.
	Kept bool `json:"kept,omitempty"`
}

// TTY is the terminal of a command. Its zero values are the defaults: 24 rows, 80 columns, xterm-256color.
type TTY struct {
	Rows    uint16 `json:"rows,omitempty"`
	Columns uint16 `json:"columns,omitempty"`
	Term    string `json:"term,omitempty"` // $TERM of the command, unless Env has it
}

// Limits of a command. A zero is the default of runner.toml; more than the maximum there is an error.
type Limits struct {
	Timeout  Duration `json:"timeout,omitempty"` // wall clock
	Grace    Duration `json:"grace,omitempty"`   // from SIGTERM to SIGKILL
	CPUs     float64  `json:"cpus,omitempty"`
	Memory   int64    `json:"memory,omitempty"`    // bytes
	Tasks    int64    `json:"tasks,omitempty"`     // processes and threads
	Output   int64    `json:"output,omitempty"`    // bytes of stdout and stderr together
	FileSize int64    `json:"file_size,omitempty"` // bytes of each file
	Disk     int64    `json:"disk,omitempty"`      // bytes of the workspace
}

// SessionState is the state of a session.
type SessionState string

// The states of a session. Closed is its last one.
const (
	SessionActive SessionState = "active" // a command waits or runs
	SessionIdle   SessionState = "idle"   // waits for the next command, and keeps its workspace
	SessionClosed SessionState = "closed" // has no workspace, and takes no command
)

// Owner is the user that made a session, by the credentials of its connection (SO_PEERCRED of unix(7)).
type Owner struct {
	UID  uint32 `json:"uid"`
	Name string `json:"name"` // empty if the host has no such user any more
}

// Session is one session.
type Session struct {
	ID          string       `json:"id"` // 16 characters of a-z and 2-7
	Owner       Owner        `json:"owner"`
	State       SessionState `json:"state"`
	Created     time.Time    `json:"created"`
	Closed      time.Time    `json:"closed,omitzero"`
	Repository  string       `json:"repository,omitempty"` // its URL, or its local path
	Ref         string       `json:"ref,omitempty"`
	Commit      string       `json:"commit,omitempty"` // of the ref when the session was made
	Patch       string       `json:"patch,omitempty"`  // sha256 of its text
	Environment string       `json:"environment"`      // as it was asked for
	Network     bool         `json:"network"`
	Secrets     []string     `json:"secrets,omitempty"` // names, sorted
	Commands    []Command    `json:"commands"`          // in a list of sessions: the last one alone
}

// Sessions is a page of sessions, the newest first.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty"` // ?before= of the next page; empty on the last one
}

// Plan is the answer to a dry run: the commands and settings of the session.
type Plan struct {
	Unit string `json:"unit"` // the template, of which each session has an instance
	// that the daemon sets on the unit, as systemctl set-property takes them
	Properties  []string     `json:"properties"`
	Workspace   string       `json:"workspace"` // for people: the source of the checkout
	Commit      string       `json:"commit,omitempty"`
	Environment string       `json:"environment"`
	Network     bool         `json:"network"` // the host's; else none
	Sandbox     PlanSandbox  `json:"sandbox"`
	Commands    []NewCommand `json:"commands"` // with all limits
	Position    int          `json:"position"` // in the queue; 0 starts at once
}

// PlanSandbox has the contents that the settings give to the sandboxes of commands.
type PlanSandbox struct {
	Path           []string `json:"path,omitempty"`       // the directories that are searched first
	Usual          []string `json:"usual_path,omitempty"` // the directories that are searched last
	Toolchains     []string `json:"toolchains,omitempty"` // on the host; their programs are searched between these
	UserToolchains bool     `json:"user_toolchains,omitempty"`
	Variables      []string `json:"variables,omitempty"` // their names
}
