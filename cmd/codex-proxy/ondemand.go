package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/proxy/ondemand"
)

// unusedTime is how long a command waits for who comes next.
const unusedTime = 5 * time.Minute

// onDemand is a command whose service a socket unit starts, and which ends when
// nobody has come for a while.
type onDemand struct {
	socket  string // FileDescriptorName= in its socket unit
	leaving string // its status at the end
	// load returns the service that the configuration asks for, and its status.
	load func(idle time.Duration, logger *slog.Logger) (runner, string, error)
}

type runner interface {
	Run(ctx context.Context, l net.Listener) error
}

// command adds --exit-idle-time and the running to c.
func (d onDemand) command(c *cobra.Command, idleUsage string) *cobra.Command {
	idle := unusedTime
	c.Flags().Var(cli.Duration(&idle), "exit-idle-time", idleUsage)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		logger := slog.New(journal.NewHandler(c.ErrOrStderr(), slog.LevelInfo))
		server, status, err := d.load(idle, logger)
		if err != nil {
			return refuse(ctx, d.socket, err, logger, func() { fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", c.CommandPath(), err) })
		}
		return d.serve(ctx, server, status, logger)
	}
	return c
}

func (d onDemand) serve(ctx context.Context, s runner, status string, logger *slog.Logger) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	sockets, err := notify.Inherited()
	if err != nil {
		return err
	}
	listeners, err := sockets.Listeners(d.socket)
	if err != nil {
		return err
	}
	notifier.Ready(status)
	defer notifier.Stopping(d.leaving)
	return s.Run(ctx, listeners[0])
}

// refuseTime is how long a bad configuration is not looked at again. The start
// limit of the units allows for more starts than that makes.
const refuseTime = 5 * time.Second

// refuse prints what is wrong with the configuration and returns it. Started by a
// socket, it first answers every request with the reason, for a while: if it ended
// at once, the requests would wait in the socket, which would start it again.
func refuse(ctx context.Context, socket string, why error, logger *slog.Logger, report func()) error {
	sockets, err := notify.Inherited()
	if err != nil || len(sockets[socket]) == 0 {
		return cli.Exit(cli.Config, why)
	}
	report()
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
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
		return err
	}
	return cli.Exit(cli.Config, nil)
}
