// Package paths names every file, directory and systemd unit of the installed system.
// units.Worker and units.WorkerSocket name the units of one worker.
package paths

// Settings.
const (
	Settings       = "/etc/codex-proxy"
	Config         = Settings + "/config.toml"
	KeyFile        = Settings + "/api-keys"
	WorkerSettings = Settings + "/workers" // a file NAME.toml for each worker
)

// Sockets.
const (
	// WorkerSockets holds ListenStream= of codex-worker@.socket.
	WorkerSockets = "/run/codex-proxy"
	// RuntimeDir is RuntimeDirectory= of codex-proxy.service.
	RuntimeDir = WorkerSockets + "/control"
	// ControlSocket is the default of control_socket.
	ControlSocket = RuntimeDir + "/socket"
	// ReloadSocket is the file in RuntimeDir on which reloads are requested. It names
	// that socket in a hand-off, too.
	ReloadSocket = "reload"
)

// State.
const (
	// StateDir is StateDirectory= of codex-proxy.service.
	StateDir = "/var/lib/codex-proxy"
	// WorkerHomes is StateDirectory= of codex-worker@.service; each worker has a directory
	// there.
	WorkerHomes = "/var/lib/codex-worker"
	// Textfile is in the directory that Debian's node exporter reads.
	Textfile = "/var/lib/prometheus/node-exporter/codex-proxy.prom"
)

// Units.
const (
	ServiceUnit      = "codex-proxy.service"
	SocketUnit       = "codex-proxy.socket"
	FetchSocketUnit  = "codex-proxy-fetch.socket"
	TracesSocketUnit = "codex-proxy-traces.socket"
	TargetUnit       = "codex.target"
)

// Users, each with a group of the same name.
const (
	// User is User= of codex-proxy.service.
	User = "codex-proxy"
	// WorkerUser is User= of codex-worker@.service.
	WorkerUser = "codex-worker"
)

// Programs.
const (
	// Program is the installed program.
	Program = "/usr/bin/codex-proxy"
	// TracesProgram sends traces. It alone links gRPC, which takes 1 MiB of memory in each process of a
	// program.
	TracesProgram = "/usr/lib/codex-proxy/codex-proxy-traces"
)

// Names of the sockets that a process inherits (FileDescriptorName=, systemd.socket(5)).
const (
	HTTPSocketName    = "http"
	ControlSocketName = "control" // no unit has one: without it the daemon opens its own
)
