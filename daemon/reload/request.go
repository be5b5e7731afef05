package reload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/internal/paths"
)

// greetBound is for a request that the daemon answers at once.
const greetBound = 5 * time.Second

// Path returns the socket of Request: the unit's socket, for a command of
// the unit.
func Path() string {
	dir := os.Getenv("RUNTIME_DIRECTORY")
	if dir == "" {
		dir = paths.RuntimeDir
	}
	return filepath.Join(dir, paths.ReloadSocket)
}

// Request makes the daemon behind the socket hand over, and returns its verdict.
func Request(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, greetBound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("cannot reach the daemon: %w (is codex-proxy.service running, and are you root?)", err)
	}
	defer conn.Close()
	answer := bufio.NewReader(conn)
	limit, err := awaitLine(conn, answer, greetBound)
	if err != nil {
		return err
	}
	bound, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("cannot understand the daemon: %q", limit)
	}
	verdict, err := awaitLine(conn, answer, bound)
	if err == nil && verdict != "ok" {
		err = errors.New(verdict)
	}
	return err
}

func awaitLine(conn net.Conn, from *bufio.Reader, bound time.Duration) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(bound)); err != nil {
		return "", err
	}
	line, err := from.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("cannot learn what became of the reload: %w (see journalctl -u codex-proxy)", err)
	}
	return strings.TrimSpace(line), nil
}
