package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/units/networks"
)

func sendTracesCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "send-traces", Short: "send the daemon's traces on (codex-proxy-traces.service)",
		Long: `
Sends the daemon's traces on to the collector that [traces] or the variables
OTEL_EXPORTER_OTLP_* name, until SIGTERM or SIGINT, or until a while without
traces; it finishes the messages that it has accepted. With a mistake in the
configuration it refuses all for 5 seconds, with the reason, and exits with 78.
Run by codex-proxy-traces.service, which codex-proxy-traces.socket starts; runs
` + paths.TracesProgram + ` in its place.`,
	}
	from.register(c.Flags())
	headers := ""
	c.Flags().Var(cli.Text(&headers, "FILE"), "headers", "headers for the collector, one NAME: VALUE a line; mode 0600")
	idle := socketservice.IdleTime
	service := socketservice.Service{
		Socket: "traces", Leaving: "Finishing what was handed over",
		Load: func(*slog.Logger) (socketservice.Server, string, error) {
			settings, err := config.LoadTraces(from.path, from.set)
			if err != nil {
				return nil, "", err
			}
			header, err := config.ReadHeaders(headers)
			if err != nil {
				return nil, "", err
			}
			return newTraceSender(settings, header, idle),
				"Ready: sends to " + cmp.Or(settings.Endpoint, "nobody, as no collector is configured"), nil
		},
	}
	c.Flags().Var(cli.Duration(&idle), "exit-idle-time", "how long it waits for the next traces")
	c.RunE = func(c *cobra.Command, _ []string) error {
		service.Command = c.CommandPath()
		return service.Run(c.Context(), c.ErrOrStderr())
	}
	return c
}

// traceSender runs paths.TracesProgram in the place of this process.
type traceSender struct {
	args, environment []string
}

// newTraceSender passes the settings as the variables of OpenTelemetry. A file with headers replaces the
// headers of the environment.
func newTraceSender(settings *config.Traces, header http.Header, idle time.Duration) traceSender {
	set := map[string]string{}
	if settings.Endpoint != "" {
		set["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = settings.Endpoint
	}
	if len(header) > 0 {
		set["OTEL_EXPORTER_OTLP_TRACES_HEADERS"] = headerVariable(header)
	}
	environment := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return set[name] != ""
	})
	for name, value := range set {
		environment = append(environment, name+"="+value)
	}
	return traceSender{[]string{paths.TracesProgram, "--exit-idle-time", idle.String()}, environment}
}

// headerVariable joins headers as OTEL_EXPORTER_OTLP_HEADERS has them, repeated ones as RFC 9110 does.
func headerVariable(header http.Header) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(header)) {
		pairs = append(pairs, name+"="+url.PathEscape(strings.Join(header[name], ", ")))
	}
	return strings.Join(pairs, ",")
}

// Run returns only if it cannot run the program.
func (s traceSender) Run(_ context.Context, l net.Listener) error {
	socket, ok := l.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("cannot pass on a %T: it must be a unix socket", l)
	}
	file, err := socket.File()
	if err != nil {
		return fmt.Errorf("cannot pass on the socket: %w", err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil { // it stays open
		return fmt.Errorf("cannot pass on the socket: %w", err)
	}
	args := append(s.args, "--socket", fmt.Sprint(file.Fd()))
	return fmt.Errorf("cannot run %s: %w", paths.TracesProgram, syscall.Exec(paths.TracesProgram, args, s.environment))
}

const tracesUnit = "codex-proxy-traces.service"

func tracesPrepareCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "traces-prepare", Short: "let it reach the collector (codex-proxy-traces.service)",
		Long: `
Lets codex-proxy-traces.service reach the collector that [traces] names, and
nothing else, if that is given by its address; if it is given by a name, then
whatever that leads to. It sets IPAddressAllow= until the next boot.
ExecStartPre of that unit, as root.`,
	}
	from.register(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := config.LoadTraces(from.path, from.set)
		if err != nil {
			return cli.Exit(cli.Config, err)
		}
		return networks.Allow(c.Context(), tracesUnit, networks.OfHost(settings.Host()))
	}
	return c
}
