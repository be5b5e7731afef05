package appservertest

import (
	"context"
	"net"
	"os"
	"path/filepath"
)

// TB is the part of testing.TB that Start needs; the product links this
// package, and must not link testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Start serves s on a socket in a new directory until the test ends, and
// returns the socket's path.
func Start(t TB, s *Server) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fake") // not t.TempDir: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatalf("cannot make a directory: %v", err)
	}
	path = filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatalf("cannot listen: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		s.Close()
		cancel()
		if err := <-served; err != nil {
			t.Fatalf("cannot serve: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	return path
}
