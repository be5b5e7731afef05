// Package remoteexec is `codex-proxy remote-exec`, the main process of codex-remote@.service: it runs codex in
// namespaces of its own, keeps it, and lets people in.
package remoteexec

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"codex-proxy/broker/modelproxy"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/remotes"
	"codex-proxy/remotes/hands"
	"codex-proxy/remotes/mainprocess"
	"codex-proxy/remotes/namespaces"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/workers/prepare"
)

// Unit is the environment that systemd gives the main process of a remote's unit.
type Unit struct {
	Name    string
	Version string // of this program
	File    string // of the remote
	Home    string // CODEX_HOME
	Runtime string // the RuntimeDirectory
	Key     *os.File
	Init    string // the program of the namespaces
	Logins  string // the socket where logins are asked for
	Runner  string // the socket of codex-runner, for hands
	// Credentials has the token of hands on another host, if there is one (systemd.exec(5)).
	Credentials string
	Cgroup      string // of the unit: no process of it may attach; empty: unknown
	Stderr      io.Writer

	logger     *slog.Logger
	tasks      sync.WaitGroup
	handsToken string // by which codex reaches its hands
	farToken   string // by which this process reaches hands elsewhere; empty: it is a credential
}

// Run runs codex until it ends, and returns an error with the exit status. If a signal has killed codex, Run does not
// return: the process dies of the same signal. Run handles the stop signals itself.
func (u *Unit) Run(ctx context.Context) error {
	u.logger = slog.New(journal.NewHandler(journal.Proxy, u.Stderr, slog.LevelInfo))
	notifier, err := notify.FromEnv(u.logger)
	if err != nil {
		return err
	}
	notifier.Status("Starting: the configuration is written and checked")
	u.handsToken = rand.Text() + rand.Text()
	settings, err := u.prepared(ctx)
	if err == nil {
		err = u.run(ctx, notifier, settings)
	}
	if err == nil || cli.HasStatus(err) && errors.Unwrap(err) == nil { // codex's own end
		return err
	}
	notifier.Status("Not started: " + err.Error())
	mainprocess.TurnAway(paths.RemoteSocketName, err)
	prepare.ExitBySignal(err)
	if !cli.HasStatus(err) {
		err = cli.Exit(notify.ExitExec, err)
	}
	return err
}

func (u *Unit) run(ctx context.Context, notifier *notify.Notifier, s *remoteconfig.Settings) error {
	creds, err := u.credentials(s)
	if err != nil {
		return err
	}
	passage, err := namespaces.NewPassage()
	if err != nil {
		return err
	}
	socket, err := mainprocess.NewSocket(filepath.Join(u.Runtime, "app-server.sock"))
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }() // its path counts on the descriptor
	held, err := u.hands(s)
	if err != nil {
		return err
	}
	manager, err := remotes.New(u.options(s, socket.Path(), creds.accounts(), held))
	if err != nil {
		return err
	}
	view, err := u.view(s)
	if err != nil {
		return cli.Exit(cli.Config, err)
	}
	if creds.tokens != nil {
		creds.tokens.Switched = manager.Switched
	}
	if err := u.openHands(ctx, notifier, held); err != nil {
		return err
	}
	defer u.closeHands(ctx, held)
	args, err := view.Args(u.Init, u.codex(creds))
	if err != nil {
		return err
	}
	relay, err := mainprocess.Relay(paths.RemoteSocketName, u.proxy(manager, u.reads(ctx, s), gate(held, manager)),
		socket)
	if err != nil {
		return err
	}
	if err := os.Unsetenv(remoteconfig.HashVariable); err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { stop(); u.tasks.Wait() }()
	return mainprocess.Codex{Notifier: notifier, Logger: u.logger, Stderr: u.Stderr, Manager: manager, End: end}.
		Exec(ctx, notify.Command{
			Args: args, Attr: view.Attr(), Files: []*os.File{passage.Theirs},
			Started: func() error {
				u.serve(serving, passage, servers{creds, held}, socket, manager)
				return errors.Join(passage.Theirs.Close(), namespaces.Keep())
			},
			Relay: relay,
		})
}

// servers serve codex in its namespaces.
type servers struct {
	*credentials

	hands *hands.Hands // nil: codex executes its commands itself
}

// serve starts the servers that run next to codex.
func (u *Unit) serve(ctx context.Context, passage *namespaces.Passage, of servers, socket *mainprocess.Socket,
	manager *remotes.Manager) {
	creds := of.credentials
	u.tasks.Go(func() {
		listeners, err := passage.Listeners()
		if err == nil && of.hands != nil && len(listeners) > 1 {
			u.serveHands(ctx, of.hands, listeners[1], manager)
		}
		if err == nil {
			err = creds.Run(ctx, listeners[0])
		}
		if err != nil && ctx.Err() == nil {
			u.logger.Error("the server that lends codex its key or login does not run", "error", err)
		}
	})
	if creds.client != nil {
		u.tasks.Go(func() { creds.client.Run(ctx) })
	}
	u.tasks.Go(func() {
		if err := socket.Await(ctx); err != nil {
			u.logger.Error("codex's socket cannot be opened", "error", err)
			return
		}
		creds.open(ctx)
		_ = manager.Run(ctx) // returns with ctx
	})
}

// key reads the provider's key, or else the token of hands elsewhere, from standard input, which codex then does not
// have.
func (u *Unit) key(s *remoteconfig.Settings) (key string, err error) {
	switch {
	case s.Provider != nil && s.Provider.KeyFile != "":
		key, err = input(u.Key, s, "provider.key_file", s.Provider.KeyFile, modelproxy.ReadKey)
	case remoteconfig.TokenIsInput(s):
		u.farToken, err = input(u.Key, s, "hands.token_file", s.Hands.TokenFile, hands.ReadToken)
	}
	if err != nil {
		return "", err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", err
	}
	defer null.Close()
	return key, unix.Dup3(int(null.Fd()), int(u.Key.Fd()), 0)
}

// input reads standard input, which is a file that a key of the settings names.
func input(from *os.File, s *remoteconfig.Settings, key, file string, read func(io.Reader) (string, error)) (string,
	error) {
	if info, err := from.Stat(); err == nil && info.Mode()&os.ModeDevice != 0 {
		return "", s.Fault(key, "there was no file %s when systemd read the settings: make it, and run "+
			"systemctl daemon-reload", file)
	}
	secret, err := read(from)
	if err != nil {
		return "", s.Fault(key, "%s: %v", file, err)
	}
	return secret, nil
}

// codex is its command line.
func (u *Unit) codex(l *credentials) []string {
	return append([]string{filepath.Join(u.Runtime, "codex"), "app-server", "--strict-config",
		"--listen", "unix://" + filepath.Join(u.Runtime, "app-server.sock")}, l.args...)
}

// end is the exit status of codex, as Init passes it on.
func end(status syscall.WaitStatus, manager *remotes.Manager) error {
	const signalled = 128
	if n := status.ExitStatus(); n > signalled {
		status = syscall.WaitStatus(n - signalled)
	}
	return mainprocess.End(status, manager)
}
