package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"codex-proxy/codex/probe"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/units"
	"codex-proxy/workers/broker"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/homelock"
)

const (
	// maxQuestions bounds the questions at a time: the next ones wait in the socket.
	maxQuestions = 32
	// refuseTime is how long a unit with a fault answers with it. The next question starts the unit again.
	refuseTime = 5 * time.Second
	// stopTimeout is how long codex may run on after a signal to end.
	stopTimeout = 10 * time.Second
)

// Unit is the main process of codex-login@.service. It ends codex, and itself, after the time Idle without a question.
type Unit struct {
	Worker  string
	Version string // our own
	Idle    time.Duration
	Home    *codexhome.Home
	// Prepare readies the home, which is locked.
	Prepare func(context.Context) error
}

// Run runs codex until it ends. ctx must not be bound to signals that stop the unit.
func (u Unit) Run(ctx context.Context, stderr io.Writer) error {
	runtime.GOMAXPROCS(1) // it has few questions
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	sockets, err := notify.Inherited()
	if err != nil {
		return err
	}
	listeners, err := sockets.Listeners(paths.LoginSocketName)
	if err != nil {
		return err
	}
	notifier.Status("Starting: the home of the login is prepared")
	lock, err := homelock.Take(ctx, u.Home.Dir, units.Login(u.Worker))
	if err == nil {
		defer func() { _ = lock.Release() }()
		err = u.Prepare(ctx)
	}
	if err != nil {
		fmt.Fprintf(stderr, "codex-login@%s: %v\n", u.Worker, err)
		notifier.Ready("Refuses all: " + err.Error())
		refuseAll(ctx, listeners, faultOf(err))
		notifier.Stopping("The next question starts it again")
		return cli.Exit(cli.Config, nil)
	}
	status, err := notify.Exec(ctx, notifier, logger, u.command(listeners, lock, stderr))
	if err != nil {
		return cli.Exit(notify.ExitExec, err)
	}
	return cli.Exit(notify.Exit(status), nil)
}

func (u Unit) command(listeners []net.Listener, lock *homelock.Lock, stderr io.Writer) notify.Command {
	socket := filepath.Join(u.Home.Runtime, "app-server.sock")
	tokens := &Tokens{Worker: u.Worker, Home: u.Home.Dir, Socket: socket, Version: u.Version}
	idle := newIdle(u.Idle)
	works, _ := probe.Parse("appserver:unix:"+socket, probe.Options{Version: u.Version})
	return notify.Command{
		Args: []string{filepath.Join(u.Home.Runtime, "codex"), "app-server", "--strict-config",
			"--listen", "unix://" + socket},
		Files: []*os.File{lock.File()},
		Ready: []notify.Probe{works.Alive}, Alive: works.Alive, // its list of models is of no use
		StopTimeout:  stopTimeout,
		Drain:        true, // a refresh that is cut has used up the refresh token
		Rest:         idle.over,
		Stderr:       journal.NewTracing(stderr, func(string) string { return "" }),
		MemoryEvents: notify.MemoryEvents(),
		Relay: &notify.Relay{
			Listeners: listeners, Target: socket, Limit: maxQuestions, AsidePrefix: Prefix,
			Aside: func(conn net.Conn) {
				defer idle.begin()()
				own := conn.LocalAddr().String() == paths.OwnLoginSocket(u.Worker)
				tokens.serve(context.Background(), conn, own)
			},
			// codex itself would show its login, and run commands.
			Serve: func(context.Context, *net.UnixConn, string) error {
				return errors.New("the socket of a login takes questions alone")
			},
		},
	}
}

// faultOf is the answer of a unit that has not started codex. Only a missing login is a fault of the account.
func faultOf(err error) *broker.Error {
	if errors.Is(err, codexhome.ErrNoLogin) {
		return &broker.Error{Code: broker.NoAccount, Message: err.Error()}
	}
	return &broker.Error{Code: broker.Unavailable, Message: err.Error()}
}

// refuseAll answers all questions with a fault, for refuseTime: if the unit ended at once, its socket would start it
// again and again.
func refuseAll(ctx context.Context, listeners []net.Listener, fault *broker.Error) {
	ctx, cancel := context.WithTimeout(ctx, refuseTime)
	defer cancel()
	relay := notify.Relay{Listeners: listeners, Limit: maxQuestions, AsidePrefix: Prefix,
		Aside: func(conn net.Conn) { refuse(conn, fault) },
		Serve: func(context.Context, *net.UnixConn, string) error { return nil }}
	relay.Run(ctx, slog.New(slog.DiscardHandler))
}

// idle is the time without a question.
type idle struct {
	over  chan struct{} // closed at its end
	after time.Duration

	mu    sync.Mutex
	open  int
	ended bool
	timer *time.Timer
}

func newIdle(after time.Duration) *idle {
	i := &idle{over: make(chan struct{}), after: after}
	i.timer = time.AfterFunc(after, i.end)
	return i
}

func (i *idle) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.open > 0 || i.ended {
		return
	}
	i.ended = true
	close(i.over)
}

// begin notes a question until the returned function is called.
func (i *idle) begin() (end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open++
	i.timer.Stop()
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.open--; i.open == 0 {
			i.timer.Reset(i.after)
		}
	}
}
