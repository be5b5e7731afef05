package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/cmd/internal/ramp"
	"codex-proxy/notify"
	"codex-proxy/probes/check"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/workers"
	"codex-proxy/units"
)

// beingStopped reports whether the unit that we run in is being stopped. systemd not
// answering within stopBound means that it is not.
func beingStopped(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	manager := units.NewManager()
	defer manager.Close()
	stopping, err := manager.Stopping(ctx)
	return err == nil && stopping
}

// relayLimit is far above what the few clients of one socket need.
const relayLimit = 64

// notifyExecCommand handles the stop signals itself: its context must not be bound
// to them. It does not return when a signal killed COMMAND, but dies of the same.
func notifyExecCommand() *cobra.Command {
	o := new(notifyExecOptions)
	c := &cobra.Command{
		Use: "notify-exec [OPTION]... -- COMMAND [ARG]...", Short: "run a program as a Type=notify service",
		Long: `
Runs COMMAND as the main process of a systemd unit with Type=notify, for programs
that do not speak sd_notify(3): READY=1 when the probe passes for the first time,
WATCHDOG=1 only while it keeps passing (with WatchdogSec=), STATUS= in words.
Signals go on to COMMAND, and its exit status or signal becomes our own. A COMMAND
that the kernel kills for lack of memory leaves ERRNO=12 (ENOMEM), as sd_notify(3)
has it: with OOMPolicy=continue systemd itself calls that a signal.

Where systemd has no growing restart delays (before 254), it first waits for what
is left of the delay that RestartSteps= and RestartMaxDelaySec= ask for.

Exit status: that of COMMAND; 64 for wrong usage; 203 if COMMAND cannot be started.
The unit should have KillMode=mixed: else systemd signals COMMAND as well as us.`,
		Args: func(_ *cobra.Command, args []string) error {
			o.command.Args = args
			if err := o.validate(); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.ErrOrStderr()) },
	}
	o.register(c.Flags())
	c.Flags().SetInterspersed(false) // the options after COMMAND are its own
	return c
}

func (o *notifyExecOptions) register(flags *pflag.FlagSet) {
	flags.Var(cli.Parsed("KIND:TARGET", "", o.setProbe), "probe", `how to find out whether COMMAND works:
  appserver:unix:PATH  a codex app-server: handshake, and
                       models listed (at start only)
  tcp:HOST:PORT        accepts a connection
  http:URL             answers GET with 200 to 399;
                       http:unix:PATH[:/TARGET] over a
                       unix socket
  exec:LINE            shell line that exits with 0
Without a probe, COMMAND is ready as soon as it runs.`)
	flags.Var(cli.Duration(&o.command.ProbeTimeout), "probe-timeout", `how long one probe may take, such as 500ms or 3s.
At most a third of WatchdogSec=, which is also the default; 5s without a watchdog.`)
	flags.Var(cli.Duration(&o.command.StopTimeout), "stop-timeout", `how long COMMAND may take to end after a signal that ends it.
Then it is killed. As long as systemd lets it by default`)
	flags.BoolVar(&o.command.Drain, "drain", false, "when SIGTERM comes, from `systemctl kill`, wait for the end of the\n"+
		"connections of --relay, and only then end COMMAND, with SIGHUP. The unit should have\n"+
		"KillSignal=SIGINT, which goes on to COMMAND at once")
	flags.Var(cli.Text(&o.blockSIGTERM, "PATH"), "block-sigterm", "if PATH is there, start COMMAND with SIGTERM blocked:\n"+
		"`systemctl kill` sends it to all processes of a unit. What COMMAND starts inherits that")
	flags.Var(cli.Parsed("FORMAT", "", o.setStderr), "stderr", `what COMMAND writes to its standard error: plain or tracing.
plain: shared as it is, the default; tracing: of Rust, as codex does: in the journal, levels become
priorities; with --relay the lines name the proxy's requests`)
	flags.Var(cli.Text(&o.certificates, "PATH"), "certificates", `the only certificate authorities for COMMAND, as SSL_CERT_FILE=,
if PATH is there and the unit sets none`)
	flags.Var(cli.Text(&o.relay, "NAME"), "relay", `accept connections on the socket that systemd passed under NAME,
once COMMAND is ready`)
	flags.Var(cli.Text(&o.relayTo, "PATH"), "relay-to", "the unix socket of COMMAND that their bytes go on to")
}

func (o *notifyExecOptions) run(ctx context.Context, stderr io.Writer) error {
	runtime.GOMAXPROCS(1) // it passes bytes on, and watches
	logger := slog.New(journal.NewHandler(stderr, slog.LevelInfo))
	notifier, err := notify.FromEnv(logger)
	if err == nil {
		err = o.prepare(notifier.WatchdogInterval())
	}
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if err := trust(o.certificates); err != nil {
		return cli.Exit(notify.ExitExec, err)
	}
	if _, err := os.Stat(o.blockSIGTERM); err == nil {
		o.command.BlockTerm = true
	}
	if o.tracing {
		o.command.Stderr = journal.NewTracing(stderr, o.requests.of)
	}
	if ramp.Await(ctx, notifier, logger) != nil {
		return nil // it was stopped
	}
	o.command.MemoryEvents = notify.MemoryEvents()
	o.command.Stopped = beingStopped
	status, err := notify.Exec(ctx, notifier, logger, o.command)
	if err != nil {
		return cli.Exit(notify.ExitExec, err)
	}
	return cli.Exit(notify.Exit(status), nil)
}

// trust sets SSL_CERT_FILE, of OpenSSL and whoever follows it.
func trust(path string) error {
	if _, set := os.LookupEnv("SSL_CERT_FILE"); set || path == "" {
		return nil
	}
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--certificates: %w", err)
	}
	return os.Setenv("SSL_CERT_FILE", path)
}

type notifyExecOptions struct {
	relay, relayTo string
	certificates   string
	blockSIGTERM   string
	tracing        bool
	requests       requests
	command        notify.Command
}

func (o *notifyExecOptions) validate() error {
	switch {
	case len(o.command.Args) == 0:
		return errors.New("no command: put it last, after --, as in notify-exec --probe tcp:127.0.0.1:80 -- COMMAND ARG")
	case o.relay != "" && o.relayTo == "":
		return errors.New("--relay needs --relay-to PATH, the unix socket that the command makes")
	case o.relay == "" && o.relayTo != "":
		return errors.New("--relay-to needs --relay NAME, the socket that systemd passes (FileDescriptorName= or the socket unit's name)")
	case o.relayTo != "" && !filepath.IsAbs(o.relayTo):
		return fmt.Errorf("--relay-to %q: give an absolute path", o.relayTo)
	default:
		return nil
	}
}

// prepare checks the options against what the service manager passed.
func (o *notifyExecOptions) prepare(watchdog time.Duration) error {
	if watchdog > 0 && o.command.Alive == nil {
		return errors.New("no --probe although the unit has WatchdogSec=: pings would mean nothing; add a probe or drop WatchdogSec=")
	}
	sockets, err := notify.Inherited()
	if err != nil || o.relay == "" {
		return err
	}
	listeners, err := sockets.Listeners(o.relay)
	if err != nil {
		return fmt.Errorf("--relay %s: %w", o.relay, err)
	}
	o.command.Relay = &notify.Relay{Listeners: listeners, Target: o.relayTo, Limit: relayLimit}
	if o.tracing {
		o.command.Relay.Aside, o.command.Relay.AsidePrefix = o.requests.read, workers.Annotations
		if o.command.Alive != nil {
			o.command.Alive = o.requests.alive(o.command.Alive)
		}
	}
	return nil
}

func (o *notifyExecOptions) setStderr(value string) error {
	if value != "plain" && value != "tracing" {
		return errors.New("want plain or tracing")
	}
	o.tracing = value == "tracing"
	return nil
}

// setProbe understands KIND:TARGET.
func (o *notifyExecOptions) setProbe(value string) error {
	if o.command.Ready != nil {
		return errors.New("only one probe is possible: combine several in exec:LINE")
	}
	kind, target, _ := strings.Cut(value, ":")
	parse, known := probeKinds[kind]
	if !known {
		return fmt.Errorf("unknown kind %q: want appserver:unix:PATH, tcp:HOST:PORT, http:URL or exec:LINE", kind)
	}
	ready, alive, err := parse(target)
	o.command.Ready, o.command.Alive = ready, alive
	return err
}

var probeKinds = map[string]func(target string) (ready, alive check.Func, err error){
	"appserver": appServerProbe,
	"tcp":       tcpProbe,
	"http":      httpProbe,
	"exec":      execProbe,
}

// appServerProbe lists models for readiness only. Whether there are any can depend
// on the account and on the network, and neither is mended by killing codex.
func appServerProbe(target string) (ready, alive check.Func, err error) {
	path, ok := strings.CutPrefix(target, "unix:")
	if !ok || !filepath.IsAbs(path) {
		return nil, nil, errors.New("want appserver:unix:/absolute/path, the path that codex app-server --listen was given")
	}
	ready = check.AppServerModels(func(ctx context.Context) (userAgent string, models int, err error) {
		userAgent, err = askAppServer(ctx, path, func(conn *appserver.Conn) error {
			list, err := conn.Models(ctx)
			models = len(list)
			return err
		})
		return userAgent, models, err
	})
	alive = check.AppServer(func(ctx context.Context) (string, error) {
		return askAppServer(ctx, path, func(*appserver.Conn) error { return nil })
	})
	return ready, alive, nil
}

// askAppServer uses a connection of its own: a kept one would not prove that codex
// still accepts. A handshake costs codex half a millisecond. The name is the one
// that the proxy gives, since codex may remember the first for its upstream.
func askAppServer(ctx context.Context, path string, ask func(*appserver.Conn) error) (userAgent string, err error) {
	conn, err := appserver.Dial(ctx, path, appserver.Options{ClientName: "codex-proxy", ClientVersion: versionString()})
	if err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = conn.Run(context.WithoutCancel(ctx)) }()
	defer func() { conn.Close(nil); <-ended }()
	hello, err := conn.Initialize(ctx)
	if err != nil {
		return "", err
	}
	return hello.UserAgent, ask(conn)
}

func tcpProbe(target string) (ready, alive check.Func, err error) {
	if _, port, err := net.SplitHostPort(target); err != nil || port == "" {
		return nil, nil, errors.New("want tcp:HOST:PORT, such as tcp:127.0.0.1:7233 or tcp:[::1]:7233")
	}
	probe := check.TCP(target)
	return probe, probe, nil
}

func httpProbe(target string) (ready, alive check.Func, err error) {
	if socket, ok := strings.CutPrefix(target, "unix:"); ok {
		return httpUnixProbe(socket)
	}
	if strings.HasPrefix(target, "//") { // --probe http://host/path: the kind is the scheme
		target = "http:" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, nil, errors.New("want http:URL, such as http:http://127.0.0.1:8080/healthz, or http:unix:/absolute/path:/healthz")
	}
	probe := check.HTTP(target)
	return probe, probe, nil
}

func httpUnixProbe(socket string) (ready, alive check.Func, err error) {
	path, target, _ := strings.Cut(socket, ":")
	if !filepath.IsAbs(path) || (target != "" && target[0] != '/') {
		return nil, nil, errors.New("want http:unix:/absolute/path or http:unix:/absolute/path:/target")
	}
	probe := check.HTTPUnix(path, target)
	return probe, probe, nil
}

func execProbe(target string) (ready, alive check.Func, err error) {
	if strings.TrimSpace(target) == "" {
		return nil, nil, errors.New("want exec:LINE, such as exec:pg_isready -q")
	}
	probe := check.Exec(target, func(ctx context.Context) error { return notify.Shell(ctx, target) })
	return probe, probe, nil
}
