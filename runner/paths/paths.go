// Package paths names the files, directories, units and inherited files of codex-runner, once for all of its
// processes. The unit files have the same names; a test compares them.
package paths

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

// Directories.
const (
	// StateDir is StateDirectory= of codex-runner.service. The daemon may write anything there.
	StateDir = "/var/lib/codex-runner"
	// Run is root's: only root can replace the socket there.
	Run = "/run/codex-runner"
	// Socket is the API, ListenStream= of codex-runner.socket.
	Socket = Run + "/api.sock"
	// RuntimeDir is RuntimeDirectory= of codex-runner.service. The daemon may write anything there as well.
	RuntimeDir = Run + "/daemon"
	// Secrets has a directory for each session with a file for each of its secrets, from which root copies them.
	Secrets = RuntimeDir + "/secrets"
	// Sessions has a directory for each session with a running unit. Root alone writes there: the unit binds the
	// targets of its links.
	Sessions = "/run/codex-session"
	// SessionStates is StateDirectory= of the units of sessions: it has a link for each session, to its home.
	SessionStates = "/var/lib/codex-session"
	// Workspaces has the slots of the pool of checkouts. Root alone may enter it.
	Workspaces = "/var/lib/codex-workspace"
	// Workspace is the working directory of a command, in the sandbox of its session.
	Workspace = "/workspace"
	// PrivateStates is where systemd keeps StateDirectory= of units with dynamic users (systemd.exec(5)), in the
	// directories codex-session, codex-repository and codex-environment-build, each with one for each unit. StateLinks
	// has the same directories with links to these.
	PrivateStates = "/var/lib/private"
	StateLinks    = "/var/lib"
	// RepositoryStates is one of these.
	RepositoryStates = PrivateStates + "/codex-repository"
	// EnvironmentStates has a directory for each owner of environments, and there whole environments by their keys.
	// Root alone may enter it.
	EnvironmentStates = StateLinks + "/codex-environment"
	// RepositoryCredentials has a directory for each repository with its credentials: see workspace.Mirror.
	RepositoryCredentials = RuntimeDir + "/repositories"
	// Repositories has a directory for each repository with a running unit. Root alone writes there.
	Repositories = "/run/codex-repository"
	// Credentials is CREDENTIALS_DIRECTORY in the sandboxes of sessions and of repositories.
	Credentials = "/run/codex-credentials"
	// Home is HOME of sessions and of set-ups: files that a set-up leaves there may have this path in them.
	Home = "/run/codex-home"
	// Repository is the state of the session's repository, and Environments has the environments of its owner by their
	// keys, as sandboxes see them. A build sees its own one alone there.
	Repository   = "/repository"
	Environments = "/environments"
	// Toolchains has the toolchains of the host that a sandbox hides otherwise, by their paths. ToolchainMounts has
	// the mounts there, by the instances of units: root alone may enter it, as homes are closed to other users.
	Toolchains      = "/toolchains"
	ToolchainMounts = Sessions + "/toolchains"
	// SystemControl is where systemd keeps the properties of SetUnitProperties with runtime=true
	// (org.freedesktop.systemd1(5)), UNIT.d/50-PROPERTY.conf, until the next boot.
	SystemControl = "/run/systemd/system.control"
	// LogFields begins the path of the file of a unit in which systemd keeps LogExtraFields= (systemd.exec(5)). It does
	// not remove the file with the unit.
	LogFields = "/run/systemd/units/log-extra-fields:"
)

// Settings is where the packages install runner.toml.
const Settings = "/etc/codex-runner/runner.toml"

// UnitProgram is the installed program of the units that the daemon starts.
const UnitProgram = "/usr/lib/codex-runner/codex-runner-unit"

// Textfile is the file of RuntimeDir with metrics for node exporter.
const Textfile = "codex-runner.prom"

// Patch is the file of SessionDir to apply to the workspace, if there is one; see package patch.
const Patch = "patch"

// SetUp is the file of a session with the set-up that it was given.
const SetUp = "setup"

// The files of a command, in CommandDir. The daemon makes the specification and Stdin, root the others.
const (
	Spec   = "spec.json"   // see session.Spec
	Stdin  = "stdin"       // optional: the standard input of the command
	Output = "output"      // see package logs
	Index  = "index"       // see package logs
	Result = "result.json" // see session.Result
	Ended  = "ended.json"  // see session.Ended
	// Artifacts is there if the specification asks for some; see package artifact.
	Artifacts = "artifacts"
)

// The files of a job, in RepositoryDir or EnvironmentDir, in addition to Output and Result. The daemon makes these,
// root the others.
const (
	Order  = "order.json" // see package job
	Bundle = "bundle"     // optional, of a repository: see workspace.WriteBundle
)

// Current is the file of SessionDir with the number of the command that the next start of the unit runs, in decimal.
const Current = "current"

// ControlSocket is the file of ControlDir on which the main process of the unit listens.
const ControlSocket = "control.sock"

// Names of the files that the main process of a session's unit inherits (FDNAME= of sd_notify(3)).
const (
	SpecFile      = "spec"
	StdinFile     = "stdin"
	OutputFile    = "output"
	IndexFile     = "index"
	ResultFile    = "result"
	ControlFile   = "control"
	PatchFile     = "patch"
	ArtifactsFile = "artifacts"
	RecordFile    = "record"   // Record of the slot, read and then replaced
	TenantFile    = "tenant"   // Tenant of the slot, if the workspace is to be made anew
	SnapshotFile  = "snapshot" // Left of the snapshot that the session begins with, if that is there
	ChangesFile   = "changes"  // Tree of the slot, if the workspace is mounted over it
	HomeFile      = "home"     // HomeDir of the session, if HOME is mounted over it
	PreviousFile  = "previous" // Previous of the slot, a directory, if it is of the same repository
	MemoryFile    = "memory"   // memory.events of the unit's cgroup, if the kernel counts there
	TasksFile     = "tasks"    // pids.events, if the kernel counts there
	PeakFile      = "peak"     // memory.peak, if the kernel counts there
)

// Names in the directory of a session in Sessions.
const (
	WorkspaceLink  = "workspace"  // to the tree of its slot, or to Merged
	HomeLink       = "home"       // to the HomeDir of the session, or to MergedHome
	RepositoryLink = "repository" // to the state of its repository, if it has one
	// EnvironmentsLink leads to the environments that its command may use, if it may use any.
	EnvironmentsLink = "environments"
	// Passwd and Group are the lists of users and of groups that the session sees.
	Passwd        = "passwd"
	Group         = "group"
	CommandNumber = "command" // the number of the command that runs
	Refusal       = "refusal" // why the start failed before the main process ran
	// CredentialsName is the directory with the secrets of the session; of a repository in Repositories, with its
	// credentials.
	CredentialsName = "credentials"
)

// Names of the files that the main process of a job inherits, in addition to OutputFile and ResultFile.
const (
	OrderFile  = "order"
	BundleFile = "bundle"
)

// CredentialPrefix begins the name of the file of each secret in CREDENTIALS_DIRECTORY.
const CredentialPrefix = "secrets_"

// mostCommands bounds the commands of one session.
const mostCommands = 1_000_000

var (
	idPattern  = lazyregexp.New(`^[a-z2-7]{16}$`)
	keyPattern = lazyregexp.New(`^[0-9a-f]{16}$`)

	environmentPattern = lazyregexp.New(`^[0-9a-f]{64}$`)
	instancePattern    = lazyregexp.New(`^[0-9a-f]{28}$`)
	ownerPattern       = lazyregexp.New(`^([0-9]{1,10}|shared)$`)
)

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

// RepositoryDir is the directory of the last job of a repository, below StateDir.
func RepositoryDir(key string) string { return filepath.Join("repositories", key) }

// EnvironmentDir is the directory of the last job of an environment, by its key or the instance of its unit.
func EnvironmentDir(key string) string {
	return filepath.Join("environments", EnvironmentInstance(key))
}

// EnvironmentInstance is the instance of the units of an environment: the beginning of its key, as the name of a user
// has 31 characters at most (User= of the unit). Nothing relies on it: the order of a build has the whole key.
func EnvironmentInstance(key string) string { return key[:min(len(key), 28)] }

// CheckEnvironmentInstance returns an error if name is no EnvironmentInstance.
func CheckEnvironmentInstance(name string) error {
	if !instancePattern.MatchString(name) {
		return fmt.Errorf("%q is no build: name one by the first 28 hexadecimal digits of its key", name)
	}
	return nil
}

// CheckEnvironment returns an error if key is not the key of an environment.
func CheckEnvironment(key string) error {
	if !environmentPattern.MatchString(key) {
		return fmt.Errorf("%q is no key: the key of an environment has 64 hexadecimal digits", key)
	}
	return nil
}

// Shared is the owner of the environments that sessions of all users share.
const Shared = "shared"

// CheckOwner returns an error if owner is not the owner of environments.
func CheckOwner(owner string) error {
	if !ownerPattern.MatchString(owner) {
		return fmt.Errorf("%q owns no environments: use a user ID, or %s", owner, Shared)
	}
	return nil
}

// SnapshotOwner is the directory of the snapshots of a user, by user ID, in EnvironmentStates.
func SnapshotOwner(user string) string { return "setup-" + user }

// BuildDir is the directory of a build that runs: in Sessions for its links, in EnvironmentStates for its files.
func BuildDir(instance string) string { return "build-" + instance }

// HomeDir is the directory of the home of a session, in Workspaces. The state directory would not do: systemd may mount
// it with another owner on the disk and without programs.
func HomeDir(id string) string { return "home-" + id }

// HomeWork is the work directory of a mount over the home of a session, in Workspaces.
func HomeWork(id string) string { return "work-" + id }

// CheckKey returns an error if key is not the key of a repository.
func CheckKey(key string) error {
	if !keyPattern.MatchString(key) {
		return fmt.Errorf("%q is no key: a key has 16 hexadecimal digits", key)
	}
	return nil
}

// ParseCommand returns the number of a command from the text of Current.
func ParseCommand(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostCommands || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("%.20q is not the number of a command: use one of 1 to %d", text, mostCommands)
	}
	return n, nil
}

// SecretsDir is the directory of the secrets of a session below RuntimeDir.
func SecretsDir(id string) string { return filepath.Join(filepath.Base(Secrets), id) }

// CredentialsDir is the directory of the credentials of a repository below RuntimeDir.
func CredentialsDir(key string) string {
	return filepath.Join(filepath.Base(RepositoryCredentials), key)
}

// ControlDir is the directory of the control socket of a session below RuntimeDir.
func ControlDir(id string) string { return filepath.Join("sessions", id) }

// SessionUnit is the unit that runs the commands of a session.
func SessionUnit(id string) string { return "codex-session@" + id + ".service" }

// SessionUser is the user of the units of a session, User= of the unit.
func SessionUser(id string) string { return "cs-" + id }

// OnlineUnit is SessionUnit with the network.
func OnlineUnit(id string) string { return "codex-session-online@" + id + ".service" }

// SessionOf returns the session of a unit that runs commands, and false for other units.
func SessionOf(unit string) (id string, ok bool) {
	template, instance, _ := strings.Cut(unit, "@")
	id, ok = strings.CutSuffix(instance, ".service")
	return id, ok && CheckID(id) == nil && (template == "codex-session" || template == "codex-session-online")
}

// RepositoryUnit fetches a repository.
func RepositoryUnit(key string) string { return "codex-repository@" + key + ".service" }

// EnvironmentUnit builds an environment without the network.
func EnvironmentUnit(key string) string {
	return "codex-environment@" + EnvironmentInstance(key) + ".service"
}

// OnlineEnvironmentUnit is EnvironmentUnit with the network.
func OnlineEnvironmentUnit(key string) string {
	return "codex-environment-online@" + EnvironmentInstance(key) + ".service"
}

// BuildUser is the user of the units of an environment, User= of the unit.
func BuildUser(instance string) string { return "ce-" + instance }

// SweepUnit removes something: a session, repository or environment by its ID or key, or a slot by its number.
func SweepUnit(what, name string) string { return "codex-sweep@" + what + "-" + name + ".service" }

// Slot is the directory of the nth slot below Workspaces.
func Slot(n int) string { return strconv.Itoa(n) }

// Names in a Slot.
const (
	Tree   = "tree"   // the directory that a session gets
	Record = "record" // the record of the last checkout in it, see package workspace
	// Tenant has the ID of the session that had it last, and behind it Settled if the workspace was made for that one,
	// or OnDisk if a loss of power leaves its files, too.
	Tenant  = "session"
	Settled = "+"
	OnDisk  = Settled + "+"
	// Previous is the Tree of the session before, until the end of the next command.
	Previous = "previous"
	// Merged and MergedHome are where the workspace and HOME of a session are mounted that has begun with a snapshot.
	// Tree has the changes of the former then.
	Merged     = "merged"
	MergedHome = "home"
	// Work is the work directory of these mounts (overlayfs, "workdir").
	Work = "work"
	// SlotRepository has the key of the repository of that session, or nothing.
	SlotRepository = "repository"
)

// Names in a snapshot, which has the files of a set-up.
const (
	Checkout     = "workspace" // the checkout, without .git
	SetUpHome    = "home"
	Left         = "left"     // has the key of the set-up as it is after it: it may have made inputs of its own
	Whole        = "whole"    // has the key, if all else is there
	SnapshotPart = "snapshot" // a snapshot that is made, in the state of its build
)

// Names in the state of a repository.
const (
	Mirror  = "mirror.git"
	Modules = "modules" // a mirror for each repository of its submodules, ModuleMirror
)

// Key names a repository by its URL: 16 hexadecimal digits.
func Key(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:8])
}

// ModuleMirror is the mirror of a submodule with the given URL in the state of a repository.
func ModuleMirror(url string) string { return filepath.Join(Modules, Key(url)+".git") }
