// Package paths names every file, directory and systemd unit of the installed system.
// units.Worker and units.WorkerSocket name the units of one worker.
package paths

// Settings.
const (
	Settings = "/etc/codex-proxy"
	Config   = Settings + "/config.toml"
	KeyFile  = Settings + "/api-keys"
	// DatabasePassword has the password of the owner of the database that [database] names, for commands of root, and
	// DatabaseServicePassword the one of the role by which the daemon connects.
	DatabasePassword        = Settings + "/database-password"
	DatabaseServicePassword = Settings + "/database-service-password"
	WorkerSettings          = Settings + "/workers" // a file NAME.toml for each worker
	// DependencySettings has a file NAME.toml for each dependency, and DependencyPresets those that
	// `codex-proxy dependencies add` copies.
	DependencySettings = Settings + "/dependencies"
	DependencyPresets  = "/usr/share/codex-proxy/dependencies"
	// RemoteSettings has a file NAME.toml for each remote, and RemoteTemplate is the one that
	// `codex-proxy remotes add` copies.
	RemoteSettings = Settings + "/remotes"
	RemoteTemplate = "/usr/share/codex-proxy/remote.toml"
	// HereSettings has the settings for the own codex of all users; UserHereSettings, below the home of a user, the
	// user's.
	HereSettings     = Settings + "/here.toml"
	UserHereSettings = ".config/codex-proxy/here.toml"
	// CodexConfig is codex's configuration for all users of the machine.
	CodexConfig = "/etc/codex/config.toml"
)

// Sockets.
const (
	// WorkerSockets holds ListenStream= of codex-worker@.socket.
	WorkerSockets = "/run/codex-proxy"
	// WorkerRuntimeDirs is RuntimeDirectory= of codex-worker@.service: a directory for each worker that runs.
	WorkerRuntimeDirs = "/run/codex-worker"
	// RuntimeDir is RuntimeDirectory= of codex-proxy.service.
	RuntimeDir = WorkerSockets + "/control"
	// ControlSocket is the default of control_socket.
	ControlSocket = RuntimeDir + "/socket"
	// ReloadSocket is the file in RuntimeDir on which reloads are requested. It names
	// that socket in a hand-off, too.
	ReloadSocket = "reload"
	// LoginsSocket is ListenSequentialPacket= of codex-proxy-logins.socket: remotes ask there for the logins of
	// accounts. It is alone in its directory, which the namespaces of a remote hides.
	LoginsSocket = LoginsDir + "/socket"
	LoginsDir    = "/run/codex-logins"
	// CopiesSocket is ListenStream= of codex-copies.socket.
	CopiesSocket = WorkerSockets + "/copies.socket"
	// ConsoleSocket is ListenStream= of codex-console-orders.socket.
	ConsoleSocket = WorkerSockets + "/console.socket"
	// FetchSocket is ListenStream= of codex-proxy-fetch.socket.
	FetchSocket = WorkerSockets + "/fetch.socket"
	// DatabaseSocket is ListenStream= of codex-proxy-database.socket. Root alone writes into DatabaseRelay, which has
	// the variables of codex-proxy-database.service.
	DatabaseSocket = WorkerSockets + "/database.socket"
	DatabaseRelay  = "/run/codex-database"
	// RemoteSockets holds ListenStream= of codex-remote@.socket.
	RemoteSockets = "/run/codex-remote"
	// PushSocket is ListenStream= of codex-console-push.socket: remotes send there the notices for browsers.
	PushSocket = RemoteSockets + "/.push"
	// HereSockets holds ListenStream= of codex-user@.socket.
	HereSockets = "/run/codex-user"
	// BrokerSockets holds ListenStream= of codex-broker@.socket. BrokerAddress leads there, in the network namespace
	// of a worker.
	BrokerSockets = "/run/codex-broker"
	BrokerAddress = "127.0.0.1:8790"
	// BrokerStates is RuntimeDirectory= of codex-broker@.service: a directory for each broker, with its state.
	BrokerStates = "/run/codex-broker-run"
	// HandsSockets holds ListenStream= of codex-hands@.socket. The daemon alone enters it. OwnHandsSockets holds the
	// other one, for the codex of the worker: root alone enters it. HandsAddress leads there, in the network
	// namespace of a worker.
	HandsSockets    = "/run/codex-hands"
	OwnHandsSockets = "/run/codex-hands-own"
	HandsAddress    = "127.0.0.1:8792"
	// AccountSockets holds ListenStream= of codex-login@.socket. The daemon alone enters it. OwnLoginSockets holds the
	// other one, for the broker that sends the requests of the account: root alone enters it.
	AccountSockets  = "/run/codex-login"
	OwnLoginSockets = "/run/codex-login-own"
)

// State.
const (
	// StateDir is StateDirectory= of codex-proxy.service.
	StateDir = "/var/lib/codex-proxy"
	// KeyCacheName is the file there with the last known keys of the database.
	KeyCacheName = "keys.cache"
	// WorkerHomes is StateDirectory= of codex-worker@.service. Each worker has a link there,
	// to its directory in PrivateHomes: systemd moves it there at the worker's first start
	// (DynamicUser=, systemd.exec(5)).
	WorkerHomes  = "/var/lib/codex-worker"
	PrivateHomes = "/var/lib/private/codex-worker"
	// LoginHomes is StateDirectory= of codex-login@.service, with such links, and LoginRuntimeDirs its
	// RuntimeDirectory=.
	LoginHomes        = "/var/lib/codex-login"
	PrivateLoginHomes = "/var/lib/private/codex-login"
	LoginRuntimeDirs  = "/run/codex-login-run"
	// DependencyStates is StateDirectory= of codex-dependency@.service, with such links, and DependencyRuntimeDirs its
	// RuntimeDirectory=.
	DependencyStates        = "/var/lib/codex-dependency"
	PrivateDependencyStates = "/var/lib/private/codex-dependency"
	DependencyRuntimeDirs   = "/run/codex-dependency"
	// RemoteHomes is StateDirectory= of codex-remote@.service, with such links, and RemoteRuntimeDirs its
	// RuntimeDirectory=.
	RemoteHomes        = "/var/lib/codex-remote"
	PrivateRemoteHomes = "/var/lib/private/codex-remote"
	RemoteRuntimeDirs  = "/run/codex-remote-run"
	// HereStates is StateDirectory= of codex-user@.service. HereRecords has a file NAME.json for each user with
	// `codex-proxy here enable`. Root alone writes there.
	HereStates  = "/var/lib/codex-user"
	HereRecords = "/var/lib/codex-here"
	// HandsStates is StateDirectory= of codex-hands@.service, with such links.
	HandsStates        = "/var/lib/codex-hands"
	PrivateHandsStates = "/var/lib/private/codex-hands"
	// OperatorUnits has the drop-ins of `systemctl edit` (systemd.unit(5)).
	OperatorUnits = "/etc/systemd/system"
	// DependencyRefusals has a file NAME for each refused start. Root alone writes there.
	DependencyRefusals = "/run/codex-dependency-refused"
	// DependencyBound has a file for each dependency that is down, with the bound units that
	// start with it again.
	DependencyBound = "/run/codex-dependency-bound"
	// CodexCopies has the copies of codex that units run, for all users to read, and CodexRuns the copy of each unit.
	// Root alone writes there.
	CodexCopies = "/var/lib/codex-copies"
	CodexRuns   = "/run/codex-copies"
	// ConsoleSecret signs the sessions of the console; it is in StateDirectory= of codex-console-orders.service.
	ConsoleSecret = "/var/lib/codex-console/secret"
	// Textfile is in the directory that Debian's node exporter reads.
	Textfile = "/var/lib/prometheus/node-exporter/codex-proxy.prom"
)

// Units.
const (
	ServiceUnit        = "codex-proxy.service"
	SocketUnit         = "codex-proxy.socket"
	FetchSocketUnit    = "codex-proxy-fetch.socket"
	TracesSocketUnit   = "codex-proxy-traces.socket"
	DatabaseSocketUnit = "codex-proxy-database.socket"
	LoginsSocketUnit   = "codex-proxy-logins.socket"
	CopiesSocketUnit   = "codex-copies.socket"
	ConsoleUnit        = "codex-console.socket"
	TargetUnit         = "codex.target"
)

// Users, each with a group of the same name.
const (
	// User is User= of codex-proxy.service.
	User = "codex-proxy"
	// WorkerUser runs codex outside of units: for a login, and for the questions of doctor.
	// Its group is SupplementaryGroups= of codex-worker@.service; units.WorkerUser names the
	// user of a worker.
	WorkerUser = "codex-worker"
)

// Programs.
const (
	// Program is the installed program.
	Program = "/usr/bin/codex-proxy"
	// TracesProgram sends traces. It alone links gRPC, which takes 1 MiB of memory in each process of a
	// program.
	TracesProgram = "/usr/lib/codex-proxy/codex-proxy-traces"
	// RemoteInit is the first process of a remote's namespaces, which has little to initialise: each remote that runs
	// keeps one.
	RemoteInit = "/usr/lib/codex-proxy/codex-proxy-remote-init"
)

// Names of the sockets that a process inherits (FileDescriptorName=, systemd.socket(5)).
const (
	HTTPSocketName    = "http"
	ControlSocketName = "control" // no unit has one: without it the daemon opens its own
	LoginsSocketName  = "logins"
	RemoteSocketName  = "remote"
	CopiesSocketName  = "copies"
	LoginSocketName   = "login"
	HereSocketName    = "here"
	HandsSocketName   = "hands"
)

// LoginMark is a file of root: the login of the worker called name has been moved to LoginHomes. No worker has such a
// name.
func LoginMark(name string) string { return LoginHomes + "/.apart-" + name }

// AccountSocket is the socket of the unit that keeps the login of the worker called name.
func AccountSocket(name string) string { return AccountSockets + "/" + name + ".sock" }

// OwnLoginSocket is the one on which that unit hands the login to the broker that sends the requests of the account.
func OwnLoginSocket(name string) string { return OwnLoginSockets + "/" + name + ".sock" }

// HandsSocket is the socket on which the daemon asks for sessions of the worker called name.
func HandsSocket(name string) string { return HandsSockets + "/" + name + ".sock" }

// OwnHandsSocket is the one on which codex reaches them.
func OwnHandsSocket(name string) string { return OwnHandsSockets + "/" + name + ".sock" }

// RemoteSocket is the socket on which people attach to the remote called name.
func RemoteSocket(name string) string { return RemoteSockets + "/" + name + ".sock" }

// RemoteNetworkSocket is the one on which the daemon connects clients of API keys.
func RemoteNetworkSocket(name string) string { return RemoteSockets + "/" + name + ".network.sock" }

// RemoteViewerSocket is the one for viewers. No name of a remote has a dot.
func RemoteViewerSocket(name string) string { return RemoteSockets + "/" + name + ".viewer.sock" }

// HereSocket is the socket of the own codex of the user called name.
func HereSocket(name string) string { return HereSockets + "/" + name + ".sock" }

// HereLoan is the drop-in by which the own codex of the user called name may ask for the logins of accounts.
func HereLoan(name string) string {
	return OperatorUnits + "/codex-user@" + name + ".service.d/50-accounts.conf"
}

// RemoteNotifySocket is the socket of the notices for the command of [notify].
func RemoteNotifySocket(name string) string { return RemoteSockets + "/" + name + ".notify.sock" }
