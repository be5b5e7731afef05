package remoteexec

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/notify"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/hands"
	"codex-proxy/remotes/namespaces"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/runner/api/wire"
	runnerclient "codex-proxy/runner/client"
	"codex-proxy/runner/sessions"
)

const (
	// handsBound bounds the start of the hands, with the set-up of the repository: below TimeoutStartSec= of the
	// drop-in.
	handsBound = 55 * time.Minute
	// handsIdle is how long the session stays open while the remote does not run, as far as the settings of
	// codex-runner allow it.
	handsIdle = 30 * 24 * time.Hour
	// handsClose bounds the request that ends the hands.
	handsClose = 2 * time.Second
)

// environments is the text of codex's environments.toml: the hands are the only place where a command can run.
func (u *Unit) environments() string {
	return fmt.Sprintf(`default = "hands"
include_local = false

[[environments]]
id = "hands"
url = "ws://127.0.0.1:%d"
auth_bearer_token = %q
`, namespaces.HandsPort, u.handsToken)
}

// hands are the hands of the remote; nil: it has none. The error has an exit status.
func (u *Unit) hands(s *remoteconfig.Settings) (*hands.Hands, error) {
	if s.Hands == nil {
		return nil, nil
	}
	if s.Hands.URL != "" {
		return u.handsElsewhere(s)
	}
	setUp, err := s.Hands.ReadSetUp()
	if err != nil {
		return nil, cli.Exit(cli.Config, s.Fault("hands.setup", "%v", err))
	}
	program, err := filepath.EvalSymlinks(filepath.Join(u.Runtime, "codex"))
	if err != nil {
		return nil, err
	}
	of := runnerclient.New(u.Runner)
	return hands.New(hands.Options{
		Mark: "codex-remote@" + u.Name, Idle: handsIdle, Client: of, Dir: filepath.Join(u.Home, managerDir),
		Program: program, Source: hands.Source{Repo: s.Hands.Repo, Ref: s.Hands.Ref, SetUp: setUp},
		Limits: wire.Limits{Timeout: wire.Duration(s.Hands.Timeout), CPUs: s.Hands.CPUs, Memory: s.Hands.Memory,
			Tasks: s.Hands.Tasks, FileSize: s.Hands.FileSize, Disk: s.Hands.Disk},
		Send: func(ctx context.Context, dir, ref string) (repository, commit string, err error) {
			found, err := sessions.Source{Client: of, Name: "hands.repo", Where: dir, Ref: ref}.Send(ctx)
			return found.Repository, found.Ref, err
		},
		Logger: u.logger.With("remote", u.Name),
	})
}

// handsElsewhere are the hands on another host.
func (u *Unit) handsElsewhere(s *remoteconfig.Settings) (*hands.Hands, error) {
	token, err := u.farToken, error(nil)
	if token == "" {
		token, err = hands.ReadTokenFile(filepath.Join(u.Credentials, remoteconfig.HandsToken))
	}
	if err != nil {
		return nil, cli.Exit(cli.Config, s.Fault("hands.token_file", "%v", err))
	}
	at, err := hands.NewElsewhere(s.Hands.URL, token, s.Hands.CAFile)
	if err != nil {
		return nil, cli.Exit(cli.Config, s.Fault("hands.url", "%v", err))
	}
	return hands.New(hands.Options{Elsewhere: at, Dir: filepath.Join(u.Home, managerDir),
		Logger: u.logger.With("remote", u.Name)})
}

// openHands waits until the hands serve, before codex starts: no command of an earlier codex goes on then.
func (u *Unit) openHands(ctx context.Context, notifier *notify.Notifier, of *hands.Hands) error {
	if of == nil {
		return nil
	}
	of.Status = notifier.Status
	ctx, cancel := context.WithTimeout(ctx, handsBound)
	defer cancel()
	if err := of.Open(ctx); err != nil {
		return cli.Exit(cli.Unavailable, err) // and no fault of codex
	}
	return nil
}

// closeHands ends the hands with codex: their commands have no reader any more.
func (u *Unit) closeHands(ctx context.Context, of *hands.Hands) {
	if of == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handsClose)
	defer cancel()
	if err := of.Close(ctx); err != nil {
		u.logger.Warn("hands do not end", "remote", u.Name, "session", of.Session(), "error", err)
	}
}

// serveHands relays between codex and the hands, and keeps these.
func (u *Unit) serveHands(ctx context.Context, of *hands.Hands, l net.Listener, manager *remotes.Manager) {
	of.Renewed = func() { remotes.AnnounceCheckout(ctx, manager) }
	u.tasks.Go(func() { of.Run(ctx) })
	u.tasks.Go(func() {
		if err := (&hands.Relay{Hands: of, Token: u.handsToken}).Serve(ctx, l); err != nil {
			u.logger.Error("the relay between codex and its hands does not run", "remote", u.Name, "error", err)
		}
	})
}

// elsewhere is the gate of the hands, as the proxy of clients has it.
type elsewhere struct{ *hands.Gate }

func (e elsewhere) Serve(ctx context.Context, of *authz.Aside, method string, params []byte) error {
	return e.Gate.Serve(ctx, of, method, params)
}

func (e elsewhere) Settle(ctx context.Context, of *authz.Aside, method string, params []byte) ([]byte, error) {
	return e.Gate.Settle(ctx, of, method, params)
}

// gate serves the requests of clients about commands and files; nil: codex does.
func gate(of *hands.Hands, manager *remotes.Manager) authz.Elsewhere {
	if of == nil {
		return nil
	}
	return elsewhere{&hands.Gate{Hands: of,
		Inject: func(ctx context.Context, thread string, items []any) error {
			return remotes.Inject(ctx, manager, thread, items)
		},
		Turn: func(thread string) string { return remotes.RunningTurn(manager, thread) },
	}}
}
