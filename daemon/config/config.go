// Package config reads the proxy's settings: a strict TOML file becomes a raw
// struct, and only a validated Config leaves the package.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/strict"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/openai/parameter"
	"codex-proxy/units"
	"codex-proxy/units/requires"
	"codex-proxy/workers/accounts"
)

// DefaultPath is where the packages install the configuration.
const DefaultPath = paths.Config

// MaxStart bounds start_timeout: TimeoutStartSec= of codex-proxy.service bounds a start
// and a reload, and systemd drops an extension at a daemon-reload.
const MaxStart = 40 * time.Second

// Config is the validated configuration.
type Config struct {
	Listen             string
	Workers            []string // instance names, at least one
	SocketDir          string
	ControlSocket      string // path; empty: none
	Codex              copies.Policy
	Keys               *auth.Keys
	KeyFile            string // the source of Keys; empty: the unit's credential
	Summary            string // reasoning.summary of requests that name none
	Aliases            map[string]modelname.Alias
	CORSOrigins        []string
	Pages              Pages // the place of CORSOrigins
	UsageRetention     int   // days
	BodyLimit          int64 // bytes
	IgnoreUnknown      bool  // parameters of requests
	ChatTakesResponses bool
	RequestMemory      int64 // bytes
	MaxInflight        int   // turns per worker
	QueueLimit         int   // requests that may wait
	QueueTimeout       time.Duration
	ReadyTimeout       time.Duration
	IdleTimeout        time.Duration
	RequestTimeout     time.Duration // 0 means no limit
	Keepalive          time.Duration
	ThreadCache        int           // threads; 0 is off
	ResponseRetention  time.Duration // 0: none is kept
	ResponseStorage    int64         // bytes
	HandshakeTimeout   time.Duration
	StartTimeout       time.Duration
	DrainTimeout       time.Duration
	ResetAfter         time.Duration
	LogLevel           slog.Level
	Textfile           string // path; empty: none
	Images             Images
	Traces             Traces
	Accounts           accounts.Policy
	Dependencies       Dependencies
	Console            Console
	Database           Database
}

// Socket is the path of a worker's unix socket.
func (c *Config) Socket(worker string) string { return filepath.Join(c.SocketDir, worker+".sock") }

// FetchSocket is the path of the socket of codex-proxy-fetch.service. No worker's
// socket can have that name.
func (c *Config) FetchSocket() string { return filepath.Join(c.SocketDir, "fetch.socket") }

// TracesSocket is the path of the socket of codex-proxy-traces.service.
func (c *Config) TracesSocket() string { return filepath.Join(c.SocketDir, "traces.socket") }

// DatabaseSocket is the path of the socket of codex-proxy-database.service.
func (c *Config) DatabaseSocket() string { return filepath.Join(c.SocketDir, "database.socket") }

// raw is the file as it is written. packaging/etc/config.toml explains each key.
type raw struct {
	Listen             string      `toml:"listen"`
	Workers            []string    `toml:"workers"`
	SocketDir          string      `toml:"socket_dir"`
	ControlSocket      string      `toml:"control_socket"`
	Codex              string      `toml:"codex"`
	APIKeys            string      `toml:"api_keys"`
	CORSOrigins        []string    `toml:"cors_origins"`
	UsageRetention     days        `toml:"usage_retention"`
	BodyLimit          int64       `toml:"body_limit"`
	UnknownParameters  string      `toml:"unknown_parameters"`
	ChatTakesResponses bool        `toml:"chat_takes_responses"`
	RequestMemory      int64       `toml:"request_memory"`
	MaxInflight        int         `toml:"max_inflight"`
	QueueLimit         int         `toml:"queue_limit"`
	QueueTimeout       duration    `toml:"queue_timeout"`
	ReadyTimeout       duration    `toml:"ready_timeout"`
	IdleTimeout        duration    `toml:"idle_timeout"`
	RequestTimeout     duration    `toml:"request_timeout"`
	Keepalive          duration    `toml:"keepalive"`
	ThreadCache        int         `toml:"thread_cache"`
	ResponseRetention  duration    `toml:"response_retention"`
	ResponseStorage    int64       `toml:"response_storage"`
	HandshakeTimeout   duration    `toml:"handshake_timeout"`
	StartTimeout       duration    `toml:"start_timeout"`
	DrainTimeout       duration    `toml:"drain_timeout"`
	ResetAfter         duration    `toml:"reset_after"`
	LogLevel           slogLevel   `toml:"log_level"`
	Textfile           string      `toml:"textfile"`
	Images             rawImages   `toml:"images"`
	Accounts           rawAccounts `toml:"accounts"`
	Traces             rawTraces   `toml:"traces"`
	Database           rawDatabase `toml:"database"`
	Models             models      `toml:"models"`
	Console            rawConsole  `toml:"console"`
	requires.Settings

	pages Pages
	lines strict.Lines
}

func defaults() raw {
	return raw{
		Listen: "127.0.0.1:8787", SocketDir: paths.WorkerSockets, Codex: string(copies.Follow),
		BodyLimit: 16 << 20, UnknownParameters: auth.Refuse, ChatTakesResponses: true, RequestMemory: 256 << 20,
		MaxInflight: 64,
		QueueLimit:  10000, QueueTimeout: duration{5 * time.Minute}, ReadyTimeout: duration{10 * time.Second},
		IdleTimeout: duration{5 * time.Minute}, Keepalive: duration{15 * time.Second}, ThreadCache: 32,
		ResponseRetention: duration{720 * time.Hour}, ResponseStorage: 1 << 30,
		HandshakeTimeout: duration{5 * time.Second}, StartTimeout: duration{20 * time.Second},
		DrainTimeout: duration{5 * time.Minute}, ResetAfter: duration{time.Minute},
		Images: rawImages{Fetch: true, AllowPrivate: []prefix{}, MaxBytes: 10 << 20,
			Timeout: duration{10 * time.Second}},
		Accounts: defaultAccounts(), Traces: rawTraces{SampleRatio: 1},
		Database:       rawDatabase{KeysMaxAge: duration{24 * time.Hour}},
		Models:         models{Summary: parameter.NoSummary},
		Console:        rawConsole{Origins: []string{}, PushPrivate: []prefix{}},
		UsageRetention: days{400}, Textfile: paths.Textfile,
	}
}

// Load reads the file at path, lets each of set ("key=value") override it, and
// validates the whole. Errors name the file, the line, the key and the remedy.
func Load(path string, set []string) (*Config, error) {
	r, err := load(path, set)
	if err != nil {
		return nil, err
	}
	c, err := r.validate(filepath.Dir(path))
	var m *misfit
	switch {
	case errors.As(err, &m):
		return nil, fmt.Errorf("%s: %w", m.place(path, r.lines, set), err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// override applies one --set. A value that is not TOML is a string, so that a
// shell needs no quoted quotes.
func override(r *raw, set string) error {
	key, value, ok := strings.Cut(set, "=")
	if !ok {
		return fmt.Errorf("--set %q must have the form key=value", set)
	}
	source := "--set " + key
	if strict.Decode(source, []byte(key+" = "+value), r) == nil {
		return nil
	}
	return strict.Decode(source, fmt.Appendf(nil, "%s = %q", key, value), r)
}

func (r raw) validate(dir string) (*Config, error) {
	for _, check := range []func() error{r.checkNumbers, r.checkDurations, r.checkListen, r.checkOrigins,
		r.checkRequires, r.checkCodex} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	workers, err := r.workers(filepath.Join(dir, "workers"))
	if err != nil {
		return nil, err
	}
	policy, err := r.policy(workers, filepath.Join(dir, "workers"))
	if err != nil {
		return nil, err
	}
	database, err := r.Database.validate()
	if err != nil {
		return nil, err
	}
	keys, err := r.keys(database)
	if err != nil {
		return nil, err
	}
	images, err := r.Images.validate()
	if err != nil {
		return nil, err
	}
	traces, err := r.Traces.validate()
	if err != nil {
		return nil, err
	}
	summary, err := r.Models.summary()
	if err != nil {
		return nil, err
	}
	aliases, err := r.Models.aliases()
	if err != nil {
		return nil, err
	}
	console, err := r.Console.validate()
	if err != nil {
		return nil, err
	}
	dependencies, err := r.dependencies(dir, workers)
	if err != nil {
		return nil, err
	}
	return &Config{
		Listen: r.Listen, Workers: workers, SocketDir: r.SocketDir, ControlSocket: r.controlSocket(), Keys: keys,
		Codex:     copies.Policy(r.Codex),
		BodyLimit: r.BodyLimit, IgnoreUnknown: r.UnknownParameters == auth.Ignore,
		ChatTakesResponses: r.ChatTakesResponses, RequestMemory: r.RequestMemory, MaxInflight: r.MaxInflight,
		QueueLimit: r.QueueLimit, QueueTimeout: r.QueueTimeout.Duration, ReadyTimeout: r.ReadyTimeout.Duration,
		RequestTimeout: r.RequestTimeout.Duration, IdleTimeout: r.IdleTimeout.Duration, Keepalive: r.Keepalive.Duration,
		ThreadCache: r.ThreadCache, ResponseRetention: r.ResponseRetention.Duration, ResponseStorage: r.ResponseStorage,
		HandshakeTimeout: r.HandshakeTimeout.Duration, StartTimeout: r.StartTimeout.Duration,
		DrainTimeout: r.DrainTimeout.Duration, ResetAfter: r.ResetAfter.Duration,
		LogLevel: r.LogLevel.Level, Textfile: r.Textfile, Images: images, Traces: traces, Accounts: policy,
		Dependencies: dependencies, Console: console, Database: database,
		KeyFile: r.keyFile(), Summary: summary, Aliases: aliases,
		CORSOrigins: r.CORSOrigins, Pages: r.pages, UsageRetention: r.UsageRetention.n,
	}, nil
}

func (r raw) checkNumbers() error {
	switch {
	case r.BodyLimit < 1024 || r.BodyLimit > 60<<20:
		return fmt.Errorf("body_limit = %d: must be between 1024 and %d bytes (codex takes messages up to 64 MiB)",
			r.BodyLimit, 60<<20)
	case r.UnknownParameters != auth.Refuse && r.UnknownParameters != auth.Ignore:
		return fmt.Errorf("unknown_parameters = %q: must be %q or %q", r.UnknownParameters, auth.Refuse, auth.Ignore)
	case r.RequestMemory < 4*r.BodyLimit || r.RequestMemory > 1<<40:
		return fmt.Errorf("request_memory = %d: must be between four times body_limit, which is %d, and %d bytes",
			r.RequestMemory, 4*r.BodyLimit, int64(1)<<40)
	case r.MaxInflight < 1 || r.MaxInflight > 96:
		return fmt.Errorf("max_inflight = %d: must be between 1 and 96 (codex refuses more than about 100)",
			r.MaxInflight)
	case r.QueueLimit < 1 || r.QueueLimit > 10000:
		return fmt.Errorf("queue_limit = %d: must be between 1 and 10000", r.QueueLimit)
	case r.ResponseRetention.Duration != 0 && (r.ResponseRetention.Duration < time.Minute ||
		r.ResponseRetention.Duration > 10*365*24*time.Hour):
		return fmt.Errorf("response_retention = %q: must be between 1m and 87600h, or 0s to keep none",
			r.ResponseRetention.Duration)
	case r.ResponseStorage < 1<<20 || r.ResponseStorage > 1<<40:
		return fmt.Errorf("response_storage = %d: must be between %d and %d bytes", r.ResponseStorage,
			1<<20, int64(1)<<40)
	case r.ThreadCache < 0 || r.ThreadCache > 1000:
		return fmt.Errorf("thread_cache = %d: must be between 0 and 1000 threads", r.ThreadCache)
	case r.RequestTimeout.Duration != 0 && (r.RequestTimeout.Duration < 10*time.Millisecond ||
		r.RequestTimeout.Duration > 24*time.Hour):
		return fmt.Errorf("request_timeout = %q: must be between 10ms and 24h, or 0s for none",
			r.RequestTimeout.Duration)
	case r.ControlSocket != "" && !filepath.IsAbs(r.ControlSocket):
		return fmt.Errorf("control_socket = %q: must be an absolute path", r.ControlSocket)
	case r.APIKeys != "" && !filepath.IsAbs(r.APIKeys):
		return fmt.Errorf("api_keys = %q: must be an absolute path", r.APIKeys)
	case r.Textfile != "" && (!filepath.IsAbs(r.Textfile) || filepath.Ext(r.Textfile) != ".prom"):
		return fmt.Errorf("textfile = %q: must be an absolute path that ends in .prom, which is what node exporter "+
			"reads; or empty for none", r.Textfile)
	case !filepath.IsAbs(r.SocketDir):
		return fmt.Errorf("socket_dir = %q: must be an absolute path", r.SocketDir)
	}
	return nil
}

func (r raw) checkCodex() error {
	if _, err := copies.ParsePolicy(r.Codex); err != nil {
		return fmt.Errorf("codex = %w", err)
	}
	return nil
}

// controlSocket is the path in the file, or else in the service's runtime directory
// (RuntimeDirectory= in codex-proxy.service, systemd.exec(5)).
func (r raw) controlSocket() string {
	dir := os.Getenv("RUNTIME_DIRECTORY")
	if r.ControlSocket != "" || dir == "" {
		return r.ControlSocket
	}
	return filepath.Join(dir, "socket")
}

func (r raw) checkDurations() error {
	for _, d := range []struct {
		key   string
		value duration
	}{
		{"queue_timeout", r.QueueTimeout}, {"ready_timeout", r.ReadyTimeout}, {"idle_timeout", r.IdleTimeout},
		{"keepalive", r.Keepalive}, {"handshake_timeout", r.HandshakeTimeout},
		{"drain_timeout", r.DrainTimeout}, {"reset_after", r.ResetAfter},
	} {
		if d.value.Duration < 10*time.Millisecond || d.value.Duration > 24*time.Hour {
			return fmt.Errorf("%s = %q: must be between 10ms and 24h", d.key, d.value.Duration)
		}
	}
	if d := r.StartTimeout.Duration; d < 10*time.Millisecond || d > MaxStart {
		return fmt.Errorf("start_timeout = %q: must be between 10ms and %s, as systemd ends a start or reload after "+
			"a minute (TimeoutStartSec= of codex-proxy.service)", d, MaxStart)
	}
	return nil
}

func (r raw) checkListen() error {
	_, port, err := net.SplitHostPort(r.Listen)
	if err != nil || port == "" {
		return fmt.Errorf("listen = %q: must be HOST:PORT", r.Listen)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("listen = %q: there is no port %q; use a number up to 65535", r.Listen, port)
	}
	return nil
}

// workers are the names in the file, or of all worker files if it names none.
func (r raw) workers(dir string) ([]string, error) {
	names := slices.Clone(r.Workers)
	if len(names) == 0 {
		files, err := fs.Glob(os.DirFS(dir), "*.toml")
		if err != nil {
			return nil, fmt.Errorf("cannot list the workers in %s: %w", dir, err)
		}
		for _, f := range files {
			if f[0] != '.' { // of an editor, or not renamed yet
				names = append(names, strings.TrimSuffix(f, ".toml"))
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no worker is configured: put NAME.toml into %s", dir)
	}
	for i, name := range names {
		if err := units.ValidName(name); err != nil {
			return nil, fmt.Errorf("workers: %w", err)
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("workers: %q stands there twice", name)
		}
	}
	return names, nil
}
