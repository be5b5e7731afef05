// Package unitstest is a fake systemd on a real, private D-Bus: it serves
// org.freedesktop.systemd1 as systemd 257 does (same signals, same order, one
// operation at a time). Tests set the states of its units; it can break the bus,
// lose signals, and forge them from another connection.
package unitstest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

// config lets every connection own any name and send any message, so that a test
// can play systemd and its forger.
const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
`

// Bus is a private bus with a fake systemd on it.
type Bus struct {
	Systemd *Systemd

	t      testing.TB
	socket string // a link to own, once systemd is on the bus
	own    string // the socket that it listens on
	config string
	daemon *exec.Cmd
}

// Start starts a bus and its systemd, and makes them the system bus of this
// process until the test ends, so the test can't be parallel. It skips the test
// if there is no dbus-daemon.
func Start(t testing.TB) *Bus {
	t.Helper()
	b := NewStopped(t)
	b.Restart()
	return b
}

// NewStopped is Start for a bus that does not run yet and has no socket.
func NewStopped(t testing.TB) *Bus {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("needs dbus-daemon")
	}
	dir, err := os.MkdirTemp("", "unitstest") // t.TempDir is too long for a socket
	require.NoError(t, err)
	in := func(name string) string { return filepath.Join(dir, name) }
	b := &Bus{t: t, socket: in("bus"), own: in("own"), config: in("bus.conf")}
	require.NoError(t, os.WriteFile(b.config, fmt.Appendf(nil, config, b.own), 0o600))
	b.Systemd = newSystemd(t, "unix:path="+b.own)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", b.Address())
	t.Cleanup(func() {
		b.Kill()
		b.Systemd.stop()
		_ = os.RemoveAll(dir)
	})
	return b
}

// Address returns the D-Bus address of the bus.
func (b *Bus) Address() string { return "unix:path=" + b.socket }

// Freeze stops the bus until Thaw.
func (b *Bus) Freeze() { _ = b.daemon.Process.Signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (b *Bus) Thaw() { _ = b.daemon.Process.Signal(syscall.SIGCONT) }

// Kill kills the bus: all connections end, and the socket refuses new ones.
func (b *Bus) Kill() {
	if b.daemon == nil {
		return
	}
	_ = b.daemon.Process.Kill()
	_ = b.daemon.Wait()
	b.daemon = nil
}

// Restart starts the bus again, on the same socket, and returns when systemd is
// back on it, without subscriptions.
func (b *Bus) Restart() {
	b.t.Helper()
	b.run()
	b.Systemd.Join()
	b.show()
}

// StartBusOnly starts a bus without systemd.
func (b *Bus) StartBusOnly() {
	b.t.Helper()
	b.run()
	b.show()
}

// show makes the bus visible to connections other than systemd's.
func (b *Bus) show() { require.NoError(b.t, os.Symlink(b.own, b.socket)) }

// run starts the bus, visible to systemd alone.
func (b *Bus) run() {
	b.t.Helper()
	b.Kill()
	if err := os.Remove(b.socket); err != nil {
		require.ErrorIs(b.t, err, os.ErrNotExist)
	}
	b.daemon = exec.Command("dbus-daemon", "--nofork", "--nopidfile", "--nosyslog",
		"--config-file="+b.config, "--print-address=1")
	b.daemon.Stderr = b.t.Output()
	out, err := b.daemon.StdoutPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, b.daemon.Start())
	_, err = bufio.NewReader(out).ReadString('\n') // it listens now
	require.NoError(b.t, err)
}

func (b *Bus) dial() *dbus.Conn {
	b.t.Helper()
	conn, err := dbus.Connect(b.Address())
	require.NoError(b.t, err)
	return conn
}
