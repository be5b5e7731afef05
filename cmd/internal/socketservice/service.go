// Package socketservice runs a service that a socket unit starts, and which ends
// after a time without requests.
package socketservice

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/ondemand"
	"codex-proxy/internal/resident"
	"codex-proxy/notify"
)

// IdleTime is how long a service waits for the next request by default.
const IdleTime = 5 * time.Minute

// Server serves on one listener until ctx ends or requests stay away. If it has a method Alive, that is the check of
// the unit's watchdog; if it has a method SetStatus, it gets a function that changes the unit's status; if it has a
// method SetSockets, it gets all sockets of the unit.
type Server interface {
	Run(ctx context.Context, l net.Listener) error
}

// Service is one command in a unit that a socket unit starts.
type Service struct {
	Command string // as errors name it
	Socket  string // FileDescriptorName= in its socket unit
	Leaving string // the unit's status at the end
	// Load returns the server that the configuration wants, and the unit's status.
	Load func(logger *slog.Logger) (server Server, status string, err error)
}

// Run serves until SIGTERM, SIGINT or the end of the server. Without a good
// configuration it refuses requests for refuseTime, and fails with cli.Config.
func (s Service) Run(ctx context.Context, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	server, status, err := s.Load(logger)
	if err != nil {
		return s.refuse(ctx, err, stderr, logger)
	}
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	sockets, err := notify.Inherited()
	if err != nil {
		return err
	}
	listeners, err := sockets.Listeners(s.Socket)
	if err != nil {
		return err
	}
	if more, ok := server.(interface {
		SetSockets(all map[string][]net.Listener)
	}); ok {
		more.SetSockets(sockets)
	}
	if shows, ok := server.(interface{ SetStatus(func(string)) }); ok {
		shows.SetStatus(notifier.Status)
	}
	notifier.Ready(status)
	defer notifier.Stopping(s.Leaving)
	if watched, ok := server.(interface{ Alive(context.Context) error }); ok {
		watching, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		go func() { _ = notifier.RunWatchdog(watching, notifier.WatchdogInterval(), watched.Alive) }()
	}
	_ = resident.Trim() // if the kernel refuses, the memory of the start stays
	return server.Run(ctx, listeners[0])
}

// refuseTime is how long a bad configuration is not read again. The start limit of
// the units allows for more starts than that makes.
const refuseTime = 5 * time.Second

// refuse prints the fault of the configuration. With a socket it first answers every
// request with that fault, for refuseTime: if the service ended at once, requests
// would wait in the socket, which would start it again. Other sockets get no answer.
func (s Service) refuse(ctx context.Context, fault error, stderr io.Writer, logger *slog.Logger) error {
	sockets, err := notify.Inherited()
	if err != nil || len(sockets[s.Socket]) == 0 {
		return cli.Exit(cli.Config, fault)
	}
	fmt.Fprintf(stderr, "%s: %v\n", s.Command, fault) // before the time, and not after it
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	refusal := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(ondemand.ReasonHeader, fault.Error())
		http.Error(w, "This service is not set up; the journal of its unit has the reason.",
			http.StatusServiceUnavailable)
	})
	ctx, cancel := context.WithTimeout(ctx, refuseTime)
	defer cancel()
	notifier.Ready(fmt.Sprintf("Refuses all: %v", fault))
	defer notifier.Stopping("Has the next one read the configuration again")
	for name, list := range sockets {
		if name != s.Socket {
			for _, l := range list {
				go turnAway(ctx, l)
			}
		}
	}
	if err := ondemand.NewServer(refusal, time.Second, refuseTime, logger).Run(ctx, sockets[s.Socket][0]); err != nil {
		return err
	}
	return cli.Exit(cli.Config, nil)
}

// turnAway closes each connection until ctx ends.
func turnAway(ctx context.Context, l net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}
