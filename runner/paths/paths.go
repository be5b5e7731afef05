// Package paths names the files, directories, units and inherited files of codex-runner, once for all of its
// processes. The unit files have the same names; a test compares them.
package paths

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// Directories.
const (
	// StateDir is StateDirectory= of codex-runner.service. The daemon may write anything there.
	StateDir = "/var/lib/codex-runner"
	// RuntimeDir is RuntimeDirectory= of codex-runner.service, likewise.
	RuntimeDir = "/run/codex-runner"
	// Socket is the API, ListenStream= of codex-runner.socket.
	Socket = RuntimeDir + "/api.sock"
	// Secrets has a directory for each session, LoadCredential= of its unit: a file there is the credential
	// secrets_NAME.
	Secrets = RuntimeDir + "/secrets"
	// Sessions has a directory for each session whose unit runs. Root alone writes there: the unit binds what the
	// links in it lead to.
	Sessions = "/run/codex-session"
	// SessionStates is StateDirectory= of the units of sessions: it has a link for each session, to its home.
	SessionStates = "/var/lib/codex-session"
	// Workspaces has the slots of the pool of checkouts. Root alone may enter it.
	Workspaces = "/var/lib/codex-workspace"
	// Workspace is the working directory of a command, in the sandbox of its session.
	Workspace = "/workspace"
	// SystemControl is where systemd keeps the properties of SetUnitProperties with runtime=true
	// (org.freedesktop.systemd1(5)), UNIT.d/50-PROPERTY.conf, until the next boot.
	SystemControl = "/run/systemd/system.control"
)

// Program is the installed program.
const Program = "/usr/bin/codex-runner"

// The files of a command, in CommandDir. The daemon makes the specification and Stdin, root the others.
const (
	Spec   = "spec.json"   // see session.Spec
	Stdin  = "stdin"       // optional: the standard input of the command
	Output = "output"      // see package logs
	Index  = "index"       // likewise
	Result = "result.json" // see session.Result
	Ended  = "ended.json"  // see session.Ended
)

// Current is the file of SessionDir with the number of the command that the next start of the unit runs, in decimal.
const Current = "current"

// ControlSocket is the file of ControlDir on which the main process of the unit listens.
const ControlSocket = "control.sock"

// Names of the files that the main process of a session's unit inherits (FDNAME= of sd_notify(3)).
const (
	SpecFile    = "spec"
	StdinFile   = "stdin"
	OutputFile  = "output"
	IndexFile   = "index"
	ResultFile  = "result"
	ControlFile = "control"
)

// Names in the directory of a session in Sessions.
const (
	WorkspaceLink = "workspace" // to the tree of its slot
	CommandNumber = "command"   // the number of the command that runs
	Refusal       = "refusal"   // why the start failed before the main process ran
)

// CredentialPrefix begins the name of the file of each secret in CREDENTIALS_DIRECTORY.
const CredentialPrefix = "secrets_"

// mostCommands bounds the commands of one session.
const mostCommands = 1_000_000

var idPattern = regexp.MustCompile(`^[a-z2-7]{16}$`)

// CheckID returns an error if id is not the ID of a session: 16 characters of base32 (RFC 4648) in lower case.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return fmt.Errorf("%q is no session: an ID has 16 characters of a-z and 2-7 (`codex-runner sessions` lists them)", id)
	}
	return nil
}

// SessionDir is the directory of a session below StateDir.
func SessionDir(id string) string { return filepath.Join("sessions", id) }

// CommandDir is the directory of the nth command of a session below StateDir; n begins with 1.
func CommandDir(id string, n int) string { return filepath.Join(SessionDir(id), strconv.Itoa(n)) }

// ParseCommand returns the number of a command from the text of Current.
func ParseCommand(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostCommands || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("%.20q is not the number of a command: use one of 1 to %d", text, mostCommands)
	}
	return n, nil
}

// ControlDir is the directory of the control socket of a session below RuntimeDir.
func ControlDir(id string) string { return filepath.Join("sessions", id) }

// SessionUnit is the unit that runs the commands of a session.
func SessionUnit(id string) string { return "codex-session@" + id + ".service" }

// Slot is the directory of the nth slot below Workspaces, and Tree the directory in it that a session gets.
func Slot(n int) string { return strconv.Itoa(n) }

// Tree is a directory of a Slot.
const Tree = "tree"
