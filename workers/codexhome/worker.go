// Package codexhome makes the CODEX_HOME of one worker from its worker file: config.toml, the model catalogue, and
// the link to the program that the unit runs. It runs before every start of a worker, so it repeats no work, and
// codex never starts on settings that codex would replace by defaults.
package codexhome

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/strict"
	"codex-proxy/internal/unitfile"
	"codex-proxy/units/requires"
)

// Mode is the purpose of a worker.
type Mode string

// The modes of a worker.
const (
	Plain  Mode = "plain"  // a language model: no tools, prompts or context of codex's own
	Native Mode = "native" // codex with its own tools, which see a workspace and no login
	Demo   Mode = "demo"   // no codex and no account: the demo worker built into codex-proxy

	keeper Mode = "login" // of no worker file: codex keeps a login, and runs no turns
)

// Worker is a valid worker file.
type Worker struct {
	File      string
	Mode      Mode
	CodexPath string    // of the program or its npm start script; empty: search for it
	Model     string    // empty: codex's own default
	Workspace string    // native only; empty: a directory of the worker's own
	Provider  *Provider // nil: OpenAI, by the worker's login
	Brokered  bool      // a broker sends its requests to the model, and codex has no other network
	// Connections bounds the broker's connections to the endpoint at a time; 0: as many as are usual.
	Connections int
	broker      string         // HOST:PORT of the broker, for a worker without a provider; empty: codex has the login
	Extra       map[string]any // the [codex] table
	Requires    requires.Settings
	Hands       *Hands   // native only; nil: codex executes its commands itself
	sandbox     *sandbox // of the tools; nil: codex runs none
	remote      *Remote  // Attended only
	lines       strict.Lines
}

// Provider is an endpoint that speaks the OpenAI Responses API.
type Provider struct {
	Name       string
	BaseURL    string
	Models     []string // its models in addition to Worker.Model
	Credential string   // name of the systemd credential that holds its key; empty: none is sent
	CAFile     string   // the certificate authorities that codex trusts; empty: the system's
}

// rawWorker is the file as written; its toml tags are all the keys there are.
type rawWorker struct {
	Mode      *string        `toml:"mode"`
	CodexPath string         `toml:"codex_path"`
	Model     string         `toml:"model"`
	Workspace string         `toml:"workspace"`
	Network   string         `toml:"network"`
	Bound     int            `toml:"connections"`
	Provider  *rawProvider   `toml:"provider"`
	Hands     *rawHands      `toml:"hands"`
	Extra     map[string]any `toml:"codex"`
	requires.Settings
}

type rawProvider struct {
	Name       string   `toml:"name"`
	BaseURL    string   `toml:"base_url"`
	Models     []string `toml:"models"`
	Credential string   `toml:"credential"`
	CAFile     string   `toml:"ca_file"`
}

// providerName is also the key of a table in config.toml.
var providerName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// Load reads a worker file. Its errors are Problems.
func Load(file string) (*Worker, error) {
	doc, err := os.ReadFile(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	return parse(file, doc)
}

func unreadable(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{File: file, Text: "no such worker file", Hint: "`codex-proxy accounts add` makes one"}
	case errors.Is(err, fs.ErrPermission):
		return &Problem{File: file, Text: "cannot read the worker file",
			Hint: "make it and its directory readable for the worker's user"}
	}
	return &Problem{File: file, Text: fmt.Sprintf("cannot read the worker file: %v", err)}
}

func parse(file string, doc []byte) (*Worker, error) {
	var raw rawWorker
	if err := strict.Decode(file, doc, &raw); err != nil {
		return nil, undecodable(err)
	}
	w := &Worker{File: file, CodexPath: raw.CodexPath, Model: raw.Model, Workspace: raw.Workspace,
		Extra: raw.Extra, Requires: raw.Settings, lines: strict.LinesOf(doc)}
	if err := w.setMode(raw.Mode); err != nil {
		return nil, err
	}
	if fault := w.Requires.Check(); fault != nil {
		return nil, w.problem(fault.Key, fault.Text, fault.Remedy)
	}
	if err := w.checkPaths(); err != nil {
		return nil, err
	}
	if err := w.setProvider(raw.Provider); err != nil {
		return nil, err
	}
	if err := setNetwork(w, raw.Network); err != nil {
		return nil, err
	}
	if err := setConnections(w, raw.Bound); err != nil {
		return nil, err
	}
	if err := setHands(w, raw.Hands); err != nil {
		return nil, err
	}
	return w, w.setSandbox()
}

// undecodable is the first fault of the file as a Problem, which has one line.
func undecodable(err error) error {
	var e *strict.Error
	if !errors.As(err, &e) {
		return err
	}
	p := &Problem{File: e.File, Line: e.Line, Text: e.Text}
	if len(e.Known) > 0 {
		p.Hint = "settings of codex itself go below [codex]"
	}
	return p
}

func (w *Worker) setMode(mode *string) error {
	const choice = `choose "plain", "native" or "demo"`
	if mode == nil {
		return w.problem("", "mode is missing", choice)
	}
	w.Mode = Mode(*mode)
	if w.Mode != Plain && w.Mode != Native && w.Mode != Demo {
		return w.problem("mode", fmt.Sprintf("unknown mode %q", *mode), choice)
	}
	if w.Workspace != "" && w.Mode == Plain {
		return w.problem("workspace", "a plain worker has no workspace", `remove it, or set mode = "native"`)
	}
	return nil
}

func (w *Worker) checkPaths() error {
	for key, path := range map[string]string{"codex_path": w.CodexPath, "workspace": w.Workspace} {
		if path != "" && !filepath.IsAbs(path) {
			return w.problem(key, fmt.Sprintf("%s = %q is not an absolute path", key, path), "")
		}
	}
	return nil
}

func (w *Worker) setProvider(raw *rawProvider) error {
	if raw == nil {
		return nil
	}
	p := Provider(*raw)
	if !providerName.MatchString(p.Name) {
		return w.problem("provider.name", fmt.Sprintf("provider.name = %q is not a name", p.Name),
			"use letters, digits, - and _")
	}
	u, err := url.Parse(p.BaseURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return w.problem("provider.base_url", fmt.Sprintf("provider.base_url = %q is not an http(s) URL", p.BaseURL),
			"")
	}
	if w.Model == "" {
		return w.problem("provider", "model is missing", "name the model that the [provider] serves")
	}
	if strings.ContainsAny(p.Credential, "/ ") || unitfile.Printable(p.Credential) != nil {
		return w.problem("provider.credential", fmt.Sprintf("provider.credential = %q is not the name of a credential",
			p.Credential), "")
	}
	if p.CAFile != "" && !filepath.IsAbs(p.CAFile) {
		return w.problem("provider.ca_file", fmt.Sprintf("provider.ca_file = %q is not an absolute path", p.CAFile), "")
	}
	w.Provider = &p
	return nil
}

// The values of the key network; without it, networkHost.
const (
	networkHost  = "host"  // that of the machine
	networkModel = "model" // the model endpoint alone, by the worker's broker
)

// setNetwork sets the key network.
func setNetwork(w *Worker, network string) error {
	switch network {
	case "", networkHost:
	case networkModel:
		if key := beyondModel(w); key != "" {
			return w.problem("codex."+key, key+` needs a network, and network = "model" leaves none`,
				`remove one of the two, or set network = "host"`)
		}
		if w.Provider != nil && w.Provider.CAFile != "" {
			if err := unitfile.CheckPath(w.Provider.CAFile); err != nil {
				return w.problem("provider.ca_file", fmt.Sprintf("provider.ca_file: %v", err), "")
			}
		}
		w.Brokered = w.Mode != Demo
	default:
		return w.problem("network", fmt.Sprintf("unknown network %q", network), `choose "model" or "host"`)
	}
	return nil
}

// mostConnections is the largest bound of connections: the broker has 4096 descriptors, and codex as many connections.
const mostConnections = 1024

// setConnections sets the key connections.
func setConnections(w *Worker, n int) error {
	switch {
	case n < 0 || n > mostConnections:
		return w.problem("connections", fmt.Sprintf("connections = %d is no bound", n),
			fmt.Sprintf("give a number from 1 to %d, or 0 for the usual bounds", mostConnections))
	case n > 0 && !w.Brokered:
		return w.problem("connections", "connections bounds what a broker does, and this worker has none",
			`remove it, or set network = "model"`)
	}
	w.Connections = n
	return nil
}

// needsNetwork are the settings of codex by which it, or a program that it starts, may reach other servers.
var needsNetwork = []string{"mcp_servers", "plugins", "marketplaces", "otel", "notify", "hooks", "openai_base_url",
	"chatgpt_base_url", "model_provider", "profile", "profiles", "sandbox_workspace_write.network_access"}

// ofProvider are the settings of a provider, in codex's own table, that the broker takes over or that change nothing
// for it.
var ofProvider = []string{"query_params", "stream_idle_timeout_ms", "request_max_retries", "stream_max_retries", "name"}

// beyondModel is a key of the [codex] table that needs more of a network than the model endpoint; empty: there is none.
func beyondModel(w *Worker) string {
	for _, key := range needsNetwork {
		if has(w.Extra, key) {
			return key
		}
	}
	if mayConnect(w.Extra) {
		return "permissions"
	}
	providers, _ := w.Extra["model_providers"].(settings)
	for name, value := range providers {
		table, _ := value.(settings)
		for key := range table {
			if w.Provider == nil || name != w.Provider.Name || !slices.Contains(ofProvider, key) {
				return "model_providers." + name
			}
		}
	}
	return ""
}

// LoginApart reports whether a unit of its own keeps the worker's login (codex-login@.service), and codex has none.
func (w *Worker) LoginApart() bool { return w.Brokered && w.Provider == nil }

// Query are the parameters that codex adds to the address of the provider.
func Query(w *Worker) url.Values {
	query := url.Values{}
	providers, _ := w.Extra["model_providers"].(settings)
	provider, _ := providers[w.Provider.Name].(settings)
	params, _ := provider["query_params"].(settings)
	for name, value := range params {
		if text, ok := value.(string); ok {
			query.Set(name, text)
		}
	}
	return query
}

// azure are the parts of an address by which codex knows Azure, where it sends what only Azure needs.
var azure = []string{"openai.azure.", "cognitiveservices.azure.", "aoai.azure.", "azure-api.", "azurefd.", "windows.net/openai"}

// through is the worker as codex sees it behind its broker, which is at the address. codex knows Azure by the name of
// the provider, too.
func through(w *Worker, address string) *Worker {
	behind := *w
	if w.Provider == nil {
		behind.broker = address
		return &behind
	}
	provider := *w.Provider
	endpoint := strings.ToLower(provider.BaseURL)
	if slices.ContainsFunc(azure, func(part string) bool { return strings.Contains(endpoint, part) }) {
		behind.Extra = settings{}
		merge(behind.Extra, clone(w.Extra))
		merge(behind.Extra, settings{"model_providers": settings{provider.Name: settings{"name": "azure"}}})
	}
	provider.BaseURL, provider.Credential, provider.CAFile = "http://"+address, "", ""
	behind.Provider = &provider
	return &behind
}
