package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/broker/brokerunit"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/workers/shim"
)

// broker is the broker of a worker.
type broker struct {
	*process
	variable string // by which the worker finds it
	end      func() // of the way to it
}

// startBroker runs the broker of a worker whose file has the text, with a socket as systemd would pass it, and the way
// to it, which the main process of the worker's unit makes otherwise.
func (b *bench) startBroker(ctx context.Context, worker, authorities string) (*broker, error) {
	dir, err := os.MkdirTemp(b.dir, "broker-")
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(authorities)
	if err := errors.Join(err, os.MkdirAll(filepath.Join(dir, "workers"), 0o700),
		os.WriteFile(filepath.Join(dir, "workers", "w0.toml"), []byte(worker), 0o600),
		os.WriteFile(filepath.Join(dir, brokerunit.Authorities), ca, 0o600)); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "broker.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	socket, err := l.(*net.UnixListener).File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	near, err := net.Listen("tcp", paths.BrokerAddress)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", "export LISTEN_PID=$$; exec \"$0\" w0", b.program+"-broker")
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=broker", "CONFIGURATION_DIRECTORY="+dir,
		"CREDENTIALS_DIRECTORY="+dir, brokerunit.MadeOf+"=:"+authorities)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startWithSlack(cmd); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	leading, end := context.WithCancel(ctx)
	go (&notify.Relay{Listeners: []net.Listener{near}, Target: path, Limit: 1024}).Run(leading, slog.New(slog.DiscardHandler))
	return &broker{&process{cmd}, shim.BrokerVariable + "=" + path, func() { end(); _ = near.Close() }}, nil
}

// brokerSlack is TimerSlackNSec= of codex-broker@.service.
const brokerSlack = time.Millisecond

// startWithSlack starts a program with the timer slack of the unit, which a child has of the thread that starts it.
func startWithSlack(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(brokerSlack.Nanoseconds()), 0, 0, 0); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0))
}
