package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
)

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
