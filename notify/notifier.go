// Package notify is this project's side of the service manager's process
// contract: sd_notify(3) messages, the watchdog of systemd.service(5), the
// inherited sockets of sd_listen_fds(3), and Exec, which gives all of these to
// a program that knows none of them.
package notify

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// sendBound bounds the sending of one message. The service manager reads at once
// unless it is stuck, and then waiting does not help.
const sendBound = time.Second

// Notifier notifies the service manager of this process's start, stop and health.
// The nil Notifier belongs to a process without a service manager: its methods do
// nothing.
//
// A message that cannot be sent is logged and otherwise ignored: the caller cannot
// repair that, and the service manager handles the missing message. The exception is
// the message of a hand-off, which then does not happen.
// All methods may be called at any time from any goroutine.
type Notifier struct {
	logger   *slog.Logger
	socket   *net.UnixAddr
	watchdog time.Duration

	// mu guards the fields below. Every message is sent under it, so that the
	// messages keep the order of the phases: READY=1 never follows STOPPING=1.
	mu       sync.Mutex
	stopping bool
	silent   bool // not the main process, yet or any more: see HandOver
	conn     *net.UnixConn
}

// FromEnv reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them from
// the environment, so that no child process takes them for its own. It returns nil
// without an error if NOTIFY_SOCKET is not set. It is to be called once, before other
// goroutines read the environment.
func FromEnv(logger *slog.Logger) (*Notifier, error) {
	address := os.Getenv("NOTIFY_SOCKET")
	if err := os.Unsetenv("NOTIFY_SOCKET"); err != nil {
		return nil, fmt.Errorf("cannot hide NOTIFY_SOCKET: %w", err)
	}
	watchdog, err := daemon.SdWatchdogEnabled(true)
	if err != nil {
		return nil, fmt.Errorf("cannot read the watchdog interval: %w (set by WatchdogSec= of the unit)", err)
	}
	if address == "" {
		return nil, nil
	}
	// sd_notify(3): an absolute path, or '@' and the name of an abstract socket.
	if address[0] != '/' && address[0] != '@' {
		return nil, fmt.Errorf("cannot use NOTIFY_SOCKET=%q: neither an absolute path nor an abstract socket (@name)",
			address)
	}
	return &Notifier{
		logger:   logger,
		socket:   &net.UnixAddr{Net: "unixgram", Name: address},
		watchdog: watchdog,
	}, nil
}

// Ready reports the end of start-up or of a reload, with a status for people. After
// Stopping it does nothing.
func (n *Notifier) Ready(status string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stopping {
		n.send("READY=1", statusLine(status))
	}
}

// Status sets the line that `systemctl status` shows for this unit.
func (n *Notifier) Status(text string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.send(statusLine(text))
}

// Failed is Status with the reason of a failure as an errno, which systemd keeps
// until the next start: "Error:" of `systemctl status`, StatusErrno of D-Bus.
func (n *Notifier) Failed(text string, reason syscall.Errno) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.send(statusLine(text), fmt.Sprintf("ERRNO=%d", reason))
}

// Stopping reports that shutdown has begun. From here on Ready and Ping do nothing,
// and the service manager's watchdog is off.
//
// Stopping turns it off explicitly. systemd stops it when a unit begins to stop, but
// a ping that arrives afterwards starts it again (measured with 257), and a ping sent
// just before SIGTERM then gets a long drain killed after WatchdogSec=.
// TimeoutStopSec= and StillStopping bound shutdown.
func (n *Notifier) Stopping(status string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	n.send("STOPPING=1", "WATCHDOG_USEC=0", statusLine(status))
}

// StillStopping reports repeatedly, after Stopping, that shutdown goes on: it asks for at least d from now, and for a
// kill by the watchdog if the next such message is not sent within the interval. TimeoutStopSec= alone would be either
// too short for a long drain or too long for a hung one.
func (n *Notifier) StillStopping(d time.Duration) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := []string{extendTimeout(d)}
	if n.watchdog > 0 {
		lines = append(lines, fmt.Sprintf("WATCHDOG_USEC=%d", n.watchdog.Microseconds()), "WATCHDOG=1")
	}
	n.send(lines...)
}

func extendTimeout(d time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds())
}

const (
	// ExtendBy is the d of ExtendTimeout and StillStopping for a process that calls them
	// every ExtendEvery. systemd reads them late when it waits for the bus, by up to 25 s
	// (sd_bus_call(3)).
	ExtendBy = 30 * time.Second
	// ExtendEvery is the interval of ExtendBy.
	ExtendEvery = time.Second
)

// ExtendTimeout asks for at least d from now for the current start-up, run time or
// shutdown.
func (n *Notifier) ExtendTimeout(d time.Duration) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.send(extendTimeout(d))
}

// Ping restarts the WatchdogInterval of the service manager. Prefer RunWatchdog,
// which pings only after a check.
func (n *Notifier) Ping() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stopping {
		n.send("WATCHDOG=1")
	}
}

// send is called with mu held.
func (n *Notifier) send(lines ...string) {
	if n.silent {
		return
	}
	if err := n.deliver(lines...); err != nil {
		n.logger.Error("cannot notify the service manager", "message", lines[0], "error", err)
	}
}

func (n *Notifier) deliver(lines ...string) error {
	message := []byte(strings.Join(lines, "\n"))
	if n.write(message) == nil {
		return nil
	}
	return n.write(message) // the service manager may have a new socket since we connected
}

// write keeps its socket between messages: a process without free file descriptors
// must still be able to ping.
func (n *Notifier) write(message []byte) error {
	if n.conn == nil {
		conn, err := net.DialUnix("unixgram", nil, n.socket)
		if err != nil {
			return err
		}
		n.conn = conn
	}
	err := n.conn.SetWriteDeadline(time.Now().Add(sendBound))
	if err == nil {
		_, err = n.conn.Write(message)
	}
	if err != nil {
		err = errors.Join(err, n.conn.Close())
		n.conn = nil
	}
	return err
}
