package modelserver

import (
	"context"
	"net"
)

// tester is the part of testing.TB that Start needs; naming it here keeps package testing out of the
// command.
type tester interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Start serves on a free loopback port until the test ends; the test fails when serving does.
func Start(t tester, models ...string) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cannot listen for the model server: %v", err)
	}
	return StartOn(t, ln, models...)
}

// StartOn is Start on a listener of the caller's, which it closes.
func StartOn(t tester, ln net.Listener, models ...string) *Server {
	t.Helper()
	s := New(models...)
	s.url = "http://" + ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("model server: %v", err)
		}
	})
	return s
}
