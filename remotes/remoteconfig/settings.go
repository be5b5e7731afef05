// Package remoteconfig reads the files of remotes, /etc/codex-proxy/remotes/NAME.toml, and makes of each the drop-ins
// of its units, codex-remote@NAME.service and codex-remote@NAME.socket. The files are the only truth: systemd runs the
// generator (systemd.generator(7)) at boot and at every daemon-reload.
package remoteconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"codex-proxy/internal/handstable"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/strict"
	"codex-proxy/units"
)

// files is the kind of settings files for remotes.
var files = settingsfile.Kind{Many: "remotes", Valid: units.ValidRemoteName}

// MaxFiles bounds the remotes of a machine.
const MaxFiles = settingsfile.MaxFiles

// Names returns the names of all remotes with a file in dir, sorted. A directory that does not exist has none. It
// skips a file with a name that no remote, and no unit, can have.
func Names(dir string) ([]string, error) { return files.Names(dir) }

// Settings is the valid file of a remote. Each field is the key of its name; /usr/share/codex-proxy/remote.toml
// explains the keys.
type Settings struct {
	Name        string // of the remote: the file's name without .toml
	File        string
	Hash        string // of the text of the file
	Description string

	Directory string  // codex's working directory; empty: Hands have one
	User      string  // empty: a user of its own
	Group     string  // its members may attach; empty: root and User alone
	Network   Network // of codex and its tools
	Sandbox   Sandbox
	Writable  []string // directories beside Directory

	Limits

	UnknownMethods UnknownMethods

	IdleStop      time.Duration // 0: never
	Continue      Continue
	ContinueLimit int

	Model     string
	CodexPath string    // empty: search for it
	Provider  *Provider // nil: accounts
	Accounts  []string  // that may serve; empty: all
	Notify    []string  // the command of [notify]; empty: none
	Push      bool      // of [notify]
	Hands     *Hands    // nil: codex executes its commands itself
	Codex     map[string]any

	Lines strict.Lines // of the file

	noInput bool // the file with the secret of standard input is missing
}

// Limits are the limits of systemd.resource-control(5) for codex and its tools.
type Limits struct {
	Memory, CPU string // empty: no limit
	Tasks       int    // 0: systemd's default
}

// Provider is the table [provider], an endpoint that speaks the OpenAI Responses API.
type Provider struct {
	Name    string
	BaseURL string
	Models  []string // its models beside Settings.Model
	KeyFile string   // the file with the key, which root alone needs to read; empty: no key is sent
	CAFile  string   // the certificate authorities; empty: the system's
}

// Network is the part of the network that codex and its tools reach.
type Network string

// The networks.
const (
	NoNetwork Network = "none"     // the model alone, through remote-exec
	Loopback  Network = "loopback" // this machine
	AllOfIt   Network = "all"
)

// Sandbox is the files that codex and its tools may write.
type Sandbox string

// The sandboxes. They hold for the unit: approvals open none of them.
const (
	ReadOnly       Sandbox = "read-only"
	WorkspaceWrite Sandbox = "workspace-write"
)

// UnknownMethods is the treatment of requests of clients that codex-proxy does not know.
type UnknownMethods string

// The treatments.
const (
	RefuseUnknown UnknownMethods = "refuse"
	ReadUnknown   UnknownMethods = "read" // owners may send a request that only reads by codex's schema
)

// Continue is the treatment of a turn that the end of codex has cut.
type Continue string

// The ways to go on.
const (
	Always Continue = "always" // at most ContinueLimit times a turn
	Ask    Continue = "ask"    // a user decides: `remotes continue` has it go on, a new message leaves it
	Never  Continue = "never"
)

// raw is the file as it is written.
type raw struct {
	Description   string                `toml:"description"`
	Directory     string                `toml:"directory"`
	User          string                `toml:"user"`
	Group         string                `toml:"group"`
	Network       string                `toml:"network"`
	Sandbox       string                `toml:"sandbox"`
	Writable      []string              `toml:"writable"`
	Memory        string                `toml:"memory"`
	CPU           string                `toml:"cpu"`
	Tasks         int                   `toml:"tasks"`
	Unknown       string                `toml:"unknown_methods"`
	IdleStop      settingsfile.Duration `toml:"idle_stop"`
	Continue      string                `toml:"continue"`
	ContinueLimit int                   `toml:"continue_limit"`
	Model         string                `toml:"model"`
	CodexPath     string                `toml:"codex_path"`
	Accounts      []string              `toml:"accounts"`
	Provider      *rawProvider          `toml:"provider"`
	Notify        rawNotify             `toml:"notify"`
	Hands         *handstable.Raw       `toml:"hands"`
	Codex         map[string]any        `toml:"codex"`
}

type rawProvider struct {
	Name    string   `toml:"name"`
	BaseURL string   `toml:"base_url"`
	Models  []string `toml:"models"`
	KeyFile string   `toml:"key_file"`
	CAFile  string   `toml:"ca_file"`
}

type rawNotify struct {
	Command []string `toml:"command"`
	Push    bool     `toml:"push"`
}

func defaults() raw {
	const halfAnHour, thrice = 30 * time.Minute, 3
	return raw{
		IdleStop: settingsfile.Lasting(halfAnHour), Continue: string(Always), ContinueLimit: thrice,
		Unknown: string(RefuseUnknown),
	}
}

// Load reads the file of a remote, which has the name of the file. The error is a *strict.Error, or joins several of
// them: each names the file, the line, the key and the remedy.
func Load(file string) (*Settings, error) {
	text, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, text)
}

// Parse is Load of a text that is the file's, or will be.
func Parse(file string, text []byte) (*Settings, error) {
	r := defaults()
	name, err := files.Decode(file, text, &r)
	if err != nil {
		return nil, err
	}
	s := r.settings(name)
	s.File, s.Lines = file, strict.LinesOf(text)
	sum := sha256.Sum256(text)
	s.Hash = hex.EncodeToString(sum[:])
	if err := cmp.Or(r.checkHands(), s.check()); err != nil {
		return nil, settingsfile.Located(err, file, s.Lines)
	}
	return s, nil
}

// network and sandbox are the values of these keys, or their defaults.
func (r raw) network() Network {
	if r.Hands != nil {
		return NoNetwork
	}
	return Network(cmp.Or(r.Network, string(AllOfIt)))
}

func (r raw) sandbox() Sandbox { return Sandbox(cmp.Or(r.Sandbox, string(WorkspaceWrite))) }

func (r raw) settings(name string) *Settings {
	return &Settings{
		Name: name, Description: cmp.Or(r.Description, "remote "+name), Directory: r.Directory, User: r.User,
		Group: r.Group, Network: r.network(), Sandbox: r.sandbox(), Writable: r.Writable,
		Limits: Limits{r.Memory, r.CPU, r.Tasks}, UnknownMethods: UnknownMethods(r.Unknown),
		IdleStop: r.IdleStop.Duration, Continue: Continue(r.Continue),
		ContinueLimit: r.ContinueLimit, Model: r.Model, CodexPath: r.CodexPath, Provider: (*Provider)(r.Provider),
		Accounts: r.Accounts, Notify: r.Notify.Command, Push: r.Notify.Push, Hands: r.Hands.Hands(), Codex: r.Codex,
	}
}

// Fault is the error of a key with a value that fits no longer, such as a directory that is gone.
func (s *Settings) Fault(key, format string, args ...any) error {
	return settingsfile.Located(settingsfile.Wrong(key, format, args...), s.File, s.Lines)
}
