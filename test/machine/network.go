package machine

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// HTTPClient returns a client that connects from inside the machine's network,
// so that http://127.0.0.1:PORT is the machine's. It never uses a proxy. All
// clients of a machine share their connections; Close closes the idle ones.
func (m *Machine) HTTPClient() *http.Client {
	return &http.Client{Transport: m.transport}
}

func (m *Machine) newTransport() *http.Transport {
	return &http.Transport{DialContext: m.DialContext}
}

// DialContext connects from inside the machine's network. In a network of its
// own the host must be an IP address or "localhost", as nothing resolves names
// there.
func (m *Machine) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if m.options.ShareNetwork {
		return d.DialContext(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if net.ParseIP(host) == nil {
		return nil, fmt.Errorf("cannot dial %s: the machine has no name service", address)
	}
	return inNetwork(m, func() (net.Conn, error) { return d.DialContext(ctx, network, net.JoinHostPort(host, port)) })
}

// StartCommand starts a program of the host inside the machine's network: it has the files and the
// processes of the host, and reaches nothing but the machine.
func (m *Machine) StartCommand(cmd *exec.Cmd) error {
	if m.options.ShareNetwork {
		return cmd.Start()
	}
	_, err := inNetwork(m, func() (struct{}, error) { return struct{}{}, cmd.Start() })
	return err
}

// inNetwork calls do on a thread that is in the machine's network; for an IP
// address package net makes its socket on the calling thread.
func inNetwork[T any](m *Machine, do func() (T, error)) (made T, err error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return made, err
	}
	defer own.Close()
	if err := unix.Setns(int(m.network.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return made, fmt.Errorf("cannot enter the machine's network: %w", err)
	}
	made, err = do()
	if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine, as no other may use it
	}
	return made, err
}
