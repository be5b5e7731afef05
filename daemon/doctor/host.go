package doctor

import (
	"context"
	"path/filepath"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/dependencies/dependency"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/probes"
	"codex-proxy/remotes/remote"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/control"
)

// Host is the machine to check. The functions may be called concurrently, and end
// with their context.
type Host struct {
	Root    string // before every path: "/"
	Control string // control socket, unless config.toml names another
	IsRoot  bool   // this process may read and run everything

	Systemd Systemd
	Account func(name string) (reach.Account, error)
	Status  func(ctx context.Context, socket string) (probes.Report, error)
	Keys    func(ctx context.Context, socket string) (control.Keys, error) // the keys in force
	// Accounts are the daemon's state of the accounts.
	Accounts func(ctx context.Context, socket string) ([]workers.Account, error)

	Get   func(ctx context.Context, url string) (status int, body []byte, err error)
	Codex func(w *codexhome.Worker, env []string, as reach.Account) (Codex, error)
	// Command makes the codex behind a worker's socket run a command as if the model had asked for it.
	Command func(ctx context.Context, socket string, command []string) (appserver.CommandResult, error)
	// Probe asks a dependency once whether it works, and returns a few words about it.
	Probe func(ctx context.Context, p dependency.Probe) (detail string, err error)
	// RemoteFaults are the things missing on this machine for a start of a remote, each with its remedy.
	RemoteFaults func(r *remote.Settings) []string
	Clock        func() (Clock, error)
	Free         func(dir string) (uint64, error) // bytes free for other users than root
}

// Systemd answers questions about systemd and polkit. See units.Manager.
type Systemd interface {
	Version(ctx context.Context) (string, error)
	Describe(ctx context.Context, unit string) (units.Description, error)
	MayManage(ctx context.Context, uid uint32, unit, verb string) (bool, error)
}

// Codex is the program of one worker. See codexhome.Program.
type Codex interface {
	Path() string
	Version(ctx context.Context) (string, error)
	Sandbox(ctx context.Context) error
}

// Clock is the state of the machine's clock.
type Clock struct {
	Now    time.Time
	Synced bool // the kernel calls it synchronised (adjtimex(2))
}

// The paths and names of the packages and units.
const (
	proxyUser  = paths.User
	workerUser = paths.WorkerUser

	targetUnit   = paths.TargetUnit
	fetchSocket  = paths.FetchSocketUnit
	tracesSocket = paths.TracesSocketUnit
	socketUnit   = paths.SocketUnit
	proxyUnit    = paths.ServiceUnit
	program      = paths.Program
	configFile   = paths.Config
	settingsDir  = paths.Settings
	keyFile      = paths.KeyFile
	homes        = paths.WorkerHomes
	runDir       = paths.WorkerSockets
	stateDir     = paths.StateDir
)

// path is a path of the machine as this process reaches it.
func (h Host) path(elem ...string) string { return filepath.Join(append([]string{h.Root}, elem...)...) }

// workerFile is the path of a worker's settings.
func workerFile(worker string) string { return filepath.Join(paths.WorkerSettings, worker+".toml") }

// home is a worker's CODEX_HOME, as the unit sets it.
func home(worker string) string { return filepath.Join(homes, worker) }
