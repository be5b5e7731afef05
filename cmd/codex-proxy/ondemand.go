package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/cmd/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/proxy/ondemand"
)

// unusedTime is how long a command waits for who comes next.
const unusedTime = 5 * time.Minute

// onDemand is a command whose service a socket unit starts, and which ends when
// nobody has come for a while.
type onDemand struct {
	name, usage string
	socket      string // FileDescriptorName= in its socket unit
	leaving     string // its status at the end
	// load returns the service that the configuration asks for, and its status.
	load func(idle time.Duration, logger *slog.Logger) (runner, string, error)
}

type runner interface {
	Run(ctx context.Context, l net.Listener) error
}

// run adds --exit-idle-time to the flags, parses them, and serves.
func (c onDemand) run(ctx context.Context, flags *flag.FlagSet, args []string, stdout, stderr io.Writer) int {
	idle := flags.Duration("exit-idle-time", unusedTime, "")
	if status, done := parseOnlyFlags(flags, args, c.usage, stdout, stderr); done {
		return status
	}
	if *idle <= 0 {
		return fail(stderr, c.name, fmt.Errorf("--exit-idle-time %s: must be more than zero", *idle), exitUsage)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	logger := slog.New(journal.NewHandler(stderr, slog.LevelInfo))
	server, status, err := c.load(*idle, logger)
	if err != nil {
		return refuse(ctx, c.name, c.socket, err, stderr)
	}
	if err := c.serve(ctx, server, status, logger); err != nil {
		return fail(stderr, c.name, err, exitFailure)
	}
	return exitOK
}

func (c onDemand) serve(ctx context.Context, s runner, status string, logger *slog.Logger) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	sockets, err := notify.Inherited()
	if err != nil {
		return err
	}
	listeners, err := sockets.Listeners(c.socket)
	if err != nil {
		return err
	}
	notifier.Ready(status)
	defer notifier.Stopping(c.leaving)
	return s.Run(ctx, listeners[0])
}

// refuseTime is how long a bad configuration is not looked at again. The start
// limit of the units allows for more starts than that makes.
const refuseTime = 5 * time.Second

// refuse says what is wrong with the configuration. Started by a socket, it first
// says so for a while to all who come: if it just ended, they would wait in the
// socket, which would start it again at once.
func refuse(ctx context.Context, command, socket string, why error, stderr io.Writer) int {
	status := fail(stderr, command, why, exitConfig)
	logger := slog.New(journal.NewHandler(stderr, slog.LevelInfo))
	sockets, err := notify.Inherited()
	if err != nil || len(sockets[socket]) == 0 {
		return status
	}
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return fail(stderr, command, err, exitFailure)
	}
	refusal := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(ondemand.ReasonHeader, why.Error())
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	ctx, cancel := context.WithTimeout(ctx, refuseTime)
	defer cancel()
	notifier.Ready(fmt.Sprintf("Refuses all: %v", why))
	defer notifier.Stopping("Has the next one read the configuration again")
	if err := ondemand.NewServer(refusal, time.Second, refuseTime, logger).Run(ctx, sockets[socket][0]); err != nil {
		return fail(stderr, command, err, exitFailure)
	}
	return status
}
