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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/broker/brokerunit"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	logins "codex-proxy/workers/broker"
	"codex-proxy/workers/login"
	"codex-proxy/workers/shim"
)

// broker is the broker of a worker.
type broker struct {
	*process
	variable string // by which the worker finds it
	end      func() // of the way to it
}

// startBroker runs the broker of a worker whose file has the text, with a socket as systemd would pass it, and the way
// to it, which the main process of the worker's unit makes otherwise. login is the socket of its login; empty: it has a
// provider.
func (b *bench) startBroker(ctx context.Context, worker, authorities, login string) (*broker, error) {
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
	cmd := exec.Command("/bin/sh", "-c", "export LISTEN_PID=$$; exec \"$0\" w0", b.program+"-broker")
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=broker", "CONFIGURATION_DIRECTORY="+dir,
		"CREDENTIALS_DIRECTORY="+dir)
	if login == "" {
		cmd.Env = append(cmd.Env, brokerunit.MadeOf+"=:"+authorities)
	} else {
		cmd.Env = append(cmd.Env, brokerunit.MadeOf+"=login", brokerunit.LoginVariable+"="+login, "SSL_CERT_FILE="+authorities)
	}
	cmd.ExtraFiles = []*os.File{socket}
	return startOn(ctx, cmd, path)
}

// startOn starts a program that is a broker on a socket, and the way to it.
func startOn(ctx context.Context, cmd *exec.Cmd, path string) (*broker, error) {
	near, err := net.Listen("tcp", paths.BrokerAddress)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startWithSlack(cmd); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	leading, end := context.WithCancel(ctx)
	go (&notify.Relay{Listeners: []net.Listener{near}, Target: path, Limit: 1024}).Run(leading, slog.New(slog.DiscardHandler))
	return &broker{&process{cmd}, shim.BrokerVariable + "=" + path, func() { end(); _ = near.Close() }}, nil
}

// startLogin plays codex-login@.service for brokers: it gives an API key. It returns the path of its socket.
func (b *bench) startLogin(ctx context.Context) (socket string, err error) {
	socket = filepath.Join(b.dir, "login.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := login.ReadQuestion(conn); err == nil {
				_ = logins.Answer(conn, logins.Login{AccessToken: "sk-test-0000000000000000"}, nil) // the broker asks again
			}
			_ = conn.Close()
		}
	}()
	return socket, nil
}

// hosts has names of servers lead to addresses, for this process and its children.
type hosts struct{ file string }

func (b *bench) newHosts() (hosts, error) {
	h := hosts{filepath.Join(b.dir, "hosts")}
	return h, errors.Join(os.WriteFile(h.file, nil, 0o644), unix.Mount(h.file, "/etc/hosts", "", unix.MS_BIND, ""))
}

// lead has the names lead to one address.
func (h hosts) lead(to string, names []string) error {
	return os.WriteFile(h.file, []byte(to+" "+strings.Join(names, " ")+"\n"), 0o644)
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
