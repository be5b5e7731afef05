package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"codex-proxy/broker/brokerunit"
	"codex-proxy/workers/prepare"
)

// startBroker runs the broker of a worker whose file has the text, with a socket as systemd would pass it. It returns
// the variable by which the worker finds it.
func (b *bench) startBroker(worker, authorities string) (broker *process, variable string, err error) {
	dir, err := os.MkdirTemp(b.dir, "broker-")
	if err != nil {
		return nil, "", err
	}
	ca, err := os.ReadFile(authorities)
	if err := errors.Join(err, os.MkdirAll(filepath.Join(dir, "workers"), 0o700),
		os.WriteFile(filepath.Join(dir, "workers", "w0.toml"), []byte(worker), 0o600),
		os.WriteFile(filepath.Join(dir, brokerunit.Authorities), ca, 0o600)); err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, "", err
	}
	defer socket.Close()
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", "export LISTEN_PID=$$; exec \"$0\" model-broker w0", b.program)
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=broker", "CONFIGURATION_DIRECTORY="+dir,
		"CREDENTIALS_DIRECTORY="+dir)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Stderr = io.Discard
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	return &process{cmd}, prepare.BrokerVariable + "=" + l.Addr().String(), nil
}
