package canaryunit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"codex-proxy/codex/canary"
	"codex-proxy/notify"
)

const (
	// stopBound is how long codex may take to end.
	stopBound = 5 * time.Second
	// dialPause is between two looks for codex's socket.
	dialPause = 20 * time.Millisecond
	// endPause is how long a failed step waits for the end of codex, which would be the reason.
	endPause = 200 * time.Millisecond
)

// server is the running codex.
type server struct {
	socket string
	stop   context.CancelFunc
	ended  chan struct{}
	end    error  // why it has ended, once it has
	killed bool   // it has not ended by itself
	last   string // its last line on standard error
}

// serve tries the codex as the server of a plain worker.
func (t *Trial) serve(ctx context.Context, limit canary.Limit, endpoint *canary.Endpoint) error {
	s := t.start(ctx)
	trial := canary.New(s.socket, t.Version, endpoint)
	steps := append([]canary.Step{{Name: "its start", Run: s.listening}}, trial.Steps()...)
	err := canary.Run(ctx, limit, steps...)
	trial.Close()
	var failed *canary.Failure
	if errors.As(err, &failed) {
		select {
		case <-s.ended:
			failed.Reason, failed.Late = s.end.Error(), false
		case <-time.After(endPause):
		}
	}
	s.stop()
	<-s.ended
	if err == nil && s.killed {
		err = &canary.Failure{Step: "its end", Reason: fmt.Sprintf("it has not ended within %s of SIGTERM", stopBound)}
	}
	return err
}

// start runs codex app-server like codex-worker@.service.
func (t *Trial) start(ctx context.Context) *server {
	socket := filepath.Join(t.home.Runtime, "app-server.sock")
	args := []string{"/usr/bin/env", "CODEX_HOME=" + t.home.Dir, "HOME=" + t.home.Dir,
		filepath.Join(t.home.Runtime, "codex"), "app-server", "--strict-config", "--listen", "unix://" + socket}
	if file := filepath.Join(t.home.Runtime, "certificates.pem"); exists(file) {
		args = append([]string{args[0], "SSL_CERT_FILE=" + file}, args[1:]...)
	}
	_ = os.Remove(socket) // of a run that was late
	running, stop := context.WithCancel(ctx)
	s := &server{socket: socket, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		status, err := notify.Exec(running, nil, t.Logger, notify.Command{Args: args, StopTimeout: stopBound,
			Stderr: func(piece string) {
				if line := strings.TrimSpace(piece); line != "" {
					s.last = line
				}
			}})
		s.killed = running.Err() != nil && status.Signaled() && status.Signal() == syscall.SIGKILL
		if s.end = err; err == nil {
			s.end = fmt.Errorf("it has ended with %s: %s", said(status), s.last)
		}
	}()
	return s
}

func said(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("status %d", status.ExitStatus())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// listening waits until codex accepts connections.
func (s *server) listening(ctx context.Context) error {
	tick := time.NewTicker(dialPause)
	defer tick.Stop()
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", s.socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return s.end
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
