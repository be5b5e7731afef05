package dependencies

import (
	"context"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

const (
	temporalAddr = "127.0.0.1:7233"
	temporalPath = "/usr/local/bin/temporal"
	// killAddr is where a client has the server killed.
	killAddr = "127.0.0.1:18082"
)

// temporal is the real Temporal with a database file, which the packaged preset runs.
type temporal struct{ bed.Dependency }

// newTemporal installs the package and adds the dependency. probe has keys of [probe] that differ from the preset's.
func newTemporal(t *testing.T, suite, probe string, binds ...machine.Bind) temporal {
	t.Helper()
	program := requireTemporal(t)
	binds = append(binds, machine.Bind{Source: program, Target: temporalPath, ReadOnly: true})
	b := bed.New(t, suite, bed.RealWorker, "", binds...)
	b.MustRun(t, "codex-proxy", "dependencies", "add", "temporal")
	preset, err := b.ReadFile("/etc/codex-proxy/dependencies/temporal.toml")
	require.NoError(t, err)
	return temporal{bed.NewDependency(b, "temporal", string(preset)+probe)} // [probe] is the last table of the file
}

// requireTemporal returns the path of the real temporal.
func requireTemporal(t *testing.T) string {
	t.Helper()
	program := os.Getenv("CODEX_PROXY_TEST_TEMPORAL")
	if program == "" {
		if os.Getenv(machine.RequireEnv) == "1" {
			t.Fatal("CODEX_PROXY_TEST_TEMPORAL is not set; `make test` sets it")
		}
		t.Skip("CODEX_PROXY_TEST_TEMPORAL is not set; `make test` sets it")
	}
	return program
}

// kill kills the server, not notify-exec, and returns the time by clock.
func (s temporal) kill() time.Duration {
	s.T.Helper()
	server := serverProcess(s.Dependency)
	at := clock()
	s.Signal(server, unix.SIGKILL)
	return at
}

// killed kills the server, and returns how long it is until the next one is ready. The delay of the restart is the
// first of the ramp.
func (s temporal) killed() time.Duration {
	s.T.Helper()
	s.MustRun(s.T, "systemctl", "reset-failed", s.Unit)
	run := s.RunID()
	at := s.kill()
	return s.ReadyAgain(run) - at
}

// erase removes the database of the stopped server.
func (s temporal) erase() { s.MustRun(s.T, "sh", "-c", "rm -f "+s.State+"/temporal.db*") }

// byHand starts a server in the machine without systemd, and returns how long it is until it is SERVING. It runs until
// stop.
func (s temporal) byHand(address, file string) (serving time.Duration, stop func()) {
	s.T.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(s.T, err)
	ctx, cancel := context.WithCancel(s.T.Context())
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		_ = s.Exec(ctx, machine.Exec{Args: []string{temporalPath, "server", "start-dev", "--ip", "127.0.0.1",
			"--port", port, "--headless", "--db-filename", file}})
	}()
	s.untilServing(address)
	return time.Since(began), func() { cancel(); <-ended }
}

// untilServing waits until the server's health is SERVING (grpc.health.v1).
func (s temporal) untilServing(address string) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), bed.Bound)
	defer cancel()
	for !s.serving(ctx, address) {
		require.NoError(s.T, ctx.Err(), "the server at %s never is SERVING", address)
		bed.Pause(ctx, 5*time.Millisecond)
	}
}

// serving dials anew each time: a connection of grpc's waits for a second after an attempt that failed.
func (s temporal) serving(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	raw, err := s.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer raw.Close()
	conn, err := grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return raw, nil }))
	require.NoError(s.T, err)
	defer func() { _ = conn.Close() }()
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err == nil && health.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
}

// serveKills lets a client in the machine kill the server.
func (s temporal) serveKills() {
	s.T.Helper()
	l, err := s.Listen("tcp", killAddr)
	require.NoError(s.T, err)
	server := &http.Server{ReadHeaderTimeout: bed.Bound,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			running := serverProcesses(s.Dependency)
			if len(running) != 1 || unix.Kill(running[0].Host, unix.SIGKILL) != nil {
				http.Error(w, "there is no server to kill", http.StatusInternalServerError)
			}
		})}
	go func() { _ = server.Serve(l) }() // until Close
	s.T.Cleanup(func() { _ = server.Close() })
}
